/// Who has how much, so that those who share an engine get as much of it each, whoever asks for more.
///
/// Shares are kept on two levels: between clients, and between the tenants (keys) of each client. So what one client
/// gets does not grow with the keys that it makes up, and those behind one address share fairly with each other.
///
/// **Who goes first.** Of a class (Priority), whoever's client has the least running goes first, of a client's
/// whoever's tenant has, of those the earliest deadline; so a class's places, and its pages with them, are shared
/// evenly between the clients that want some, and one alone has all. Where there is no place (for the first of those to
/// whom one is yielded) or no memory for the first that waits, somebody yields it at once: a sequence whose client does
/// not read; a batch one that is in time, to an interactive one; then, of a client that has two more than the one that
/// waits at least, the one with the latest deadline. A sequence that needs a page takes it from one that comes after
/// it: those that are not read come last, then batch, then the second of each client after the first of each, and so
/// on. The first sequence of the first class, by deadline, is the first of its client and of all, so as long as its
/// client reads it is never put back and comes to its end; the deadlines of others stand still, so each is the first
/// some time.
///
/// **Clients that do not read.** A sequence that kUnreadTokens events wait in for its client computes nothing beside
/// one whose client reads, and keeps its place and pages only while nobody who waits wants them, and goes on where
/// nobody else is. With kPendingTokensMax it is stalled: it computes nothing, and keeps them for kStallMax at most. Put
/// back, it waits behind all until its client has read, and then joins as a request that comes at that moment, later
/// each time (Sequence::rejoin); reading takes all events at once, so each time must have been paid for by reading
/// kUnreadTokens of them. Of such sequences as many are kept as may wait in the queue; then those that have waited
/// longest end with kQueueFull. So what an answer has produced and not delivered is bounded, for each and for all.
#pragma once

#include <compare>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "engine/scheduling/party.h"

namespace cairn {

/// What somebody has: all of its client first, then what it has of that. Who has least goes first.
struct Held {
  int64_t client = 0;
  int64_t tenant = 0;
  auto operator<=>(const Held&) const = default;
};

/// Allocates nothing while there are no more parties than were reserved. Thread: one.
class Holdings {
 public:
  void reserve(size_t parties);
  void clear();
  Held of(const Party& party) const { return {clients_.of(party.client, 0), tenants_.of(party.tenant, party.client)}; }
  void add(const Party& party, int64_t amount);
  /// Whether `other` has so much more than `party` that it still has as much once it has given one to it.
  bool yields(const Party& other, const Party& party) const;
  /// Whether anybody has so much more.
  bool somebody_yields(const Party& party) const;

  // Of what is given out over time, between those who want some now. Between begin() and settle(), want() names them:
  // the others are forgotten, as they owe nothing and have saved nothing up; who is new has what the one has that has
  // least (virtual token counters: Sheng et al. 2024, Fairness in Serving Large Language Models).
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

    std::vector<Entry> entries_;  // few: of those who run or wait at the same time
  };

  Level clients_;
  Level tenants_;
};

}  // namespace cairn
