/// Counts what each party has, so that all that share an engine get equal parts of it, whatever each asks for.
///
/// Shares are kept on two levels: between clients, and between the tenants (keys) of each client. So a client does not
/// get more by making up keys, and users behind one address share fairly with each other.
///
/// **Order.** Within a class (Priority), a request whose client has the least running goes first; within a client, the
/// one whose tenant has the least; then the earliest deadline. So a class's slots, and its pages with them, are divided
/// evenly between the clients that want some, and one client alone has all. If there is no slot (for the first request
/// for which one is yielded) or no memory for the first that waits, a running sequence yields it at once: first one
/// whose client does not read; then, to an interactive request, a batch sequence that is in time; then, of a client
/// that has at least two more than the waiting one, the sequence with the latest deadline. A sequence that needs a page
/// takes it from one that comes after it: the order is interactive before batch, the first sequence of each client
/// before the second of each, and so on; unread ones come after all others. The first sequence of the first class, by
/// deadline, is the first of its client and of all, so it is never preempted as long as its client reads, and it
/// finishes; deadlines do not move, so each sequence is the first at some time.
///
/// **Clients that do not read.** A sequence with kUnreadTokens events waiting for its client computes nothing beside
/// one whose client reads, keeps its slot and pages only until a waiting request wants them, and goes on if no other
/// request is there. With kPendingTokensMax it is stalled: it computes nothing, and keeps them for at most kStallMax.
/// Once preempted, it waits behind all others until its client has read, and then joins as a request that arrives at
/// that moment, or later each further time (SequenceOrder::rejoin); reading takes all events at once, so each return
/// requires reading kUnreadTokens of them. As many such sequences are kept as may wait in the queue; then those that
/// have waited longest end with kQueueFull. So the text that is produced and not delivered is bounded, for each answer
/// and for all.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/party.h"

namespace cairn::engine {

/// What a party has: first its client's total, then its tenant's. The smallest goes first.
struct Held {
  int64_t client = 0;
  int64_t tenant = 0;
  auto operator<=>(const Held&) const = default;
};

/// Allocates nothing while there are no more parties than were reserved. Not thread-safe.
class Holdings {
 public:
  void reserve(size_t parties);
  void clear();
  Held of(const Party& party) const { return {clients_.of(party.client, 0), tenants_.of(party.tenant, party.client)}; }
  void add(const Party& party, int64_t amount);
  /// Whether `other` has so much more than `party` that it still has at least as much after giving one to it.
  bool yields(const Party& other, const Party& party) const;
  /// Whether any party yields to this one.
  bool somebody_yields(const Party& party) const;

  // For quantities that are given out over time, among the parties that want some now. Between begin() and settle(),
  // want() names them. The others are forgotten: they owe nothing and have saved nothing up. A new party starts with
  // the smallest amount that one of the others has (virtual token counters: Sheng et al. 2024, Fairness in Serving
  // Large Language Models).
  void begin();
  void want(const Party& party);
  void settle();

 private:
  class Level {
   public:
    void reserve(size_t entries) { entries_.reserve(entries); }
    void clear() { entries_.clear(); }
    int64_t of(uint64_t who, uint64_t among) const;
    void add(uint64_t who, uint64_t among, int64_t amount);
    int64_t most(uint64_t among) const;
    void begin();
    void want(uint64_t who, uint64_t among);
    void settle();

   private:
    struct Entry {
      uint64_t who = 0;
      uint64_t among = 0;
      int64_t amount = 0;
      bool wants = false;
      bool is_new = false;
    };
    const Entry* find(uint64_t who, uint64_t among) const;
    Entry& entry(uint64_t who, uint64_t among);

    std::vector<Entry> entries_;  // few: one for each party that runs or waits
  };

  Level clients_;
  Level tenants_;
};

}  // namespace cairn::engine
