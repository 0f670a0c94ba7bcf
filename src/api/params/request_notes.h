/// What parsers know besides the request itself, and what of a request has no effect: that is told once to the log, and
/// to the client that asks for it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "api/params/generation_defaults.h"

namespace cairn::api {

class RequestRecord;

/// What requests for a model of that name get that leave something out.
using DefaultsOfModel = std::function<GenerationDefaults(std::string_view model)>;

inline constexpr size_t kWarningsMax = 64;         ///< of one request; one more says how many there are besides
inline constexpr size_t kWarningBytesMax = 800;    ///< of each
inline constexpr size_t kNotedNamesMax = 512;      ///< names that the log is told of before it is told no more
inline constexpr size_t kNotedOfRequestMax = 16;   ///< of these, from one request
inline constexpr size_t kNotedNameBytesMax = 200;  ///< of such a name

/// While it lives, the parsers that run on this thread tell it what they ignore. One at a time on a thread; made by
/// whoever has a request read (Service::hand_over, frames/session.cpp).
class RequestNotes {
 public:
  /// `strict`: a field that the endpoint does not know is an error (--strict-fields).
  /// `record` is told what answers the request; null: nobody asks.
  explicit RequestNotes(bool strict = false, DefaultsOfModel defaults = {},
                        std::shared_ptr<RequestRecord> record = nullptr);
  ~RequestNotes();
  RequestNotes(const RequestNotes&) = delete;
  RequestNotes& operator=(const RequestNotes&) = delete;

  /// This thread's; null: nobody listens.
  static RequestNotes* current();
  bool strict() const { return strict_; }
  /// The model that the request names, or none. Before anything asks for its defaults.
  void set_model(std::string_view name) { model_ = name; }
  /// For what the request leaves out.
  const GenerationDefaults& defaults();
  const std::shared_ptr<RequestRecord>& record() const { return record_; }
  /// The request says "warnings": true.
  void want() { wanted_ = true; }
  void add(std::string_view warning);
  const std::vector<std::string>& all() const { return warnings_; }

 private:
  bool strict_;
  DefaultsOfModel defaults_of_;
  std::string model_;
  std::optional<GenerationDefaults> defaults_;  // once they were asked for
  std::shared_ptr<RequestRecord> record_;
  bool wanted_ = false;
  std::vector<std::string> warnings_;
  size_t dropped_ = 0;
  size_t logged_ = 0;

  friend std::string wanted_warnings();
  friend void note_ignored(std::string_view name, std::string_view warning);
};

/// Adds `warning` to this thread's request. The log has a line with it the first time that `name` is noted in this
/// process; numbers in brackets do not make another name of it (messages[2].x is messages[].x).
void note_ignored(std::string_view name, std::string_view warning);

/// Those of the model that this thread's request names; else nothing is set.
GenerationDefaults generation_defaults();

/// The record of this thread's request; null: it has none.
std::shared_ptr<RequestRecord> current_record();

/// The warnings of this thread's request as a JSON array; empty if it does not ask for them.
std::string wanted_warnings();
/// `body`, the text of a JSON object or of an array of them, with "warnings" as the last member of the (last) object.
/// `warnings`: as `wanted_warnings` gives it; empty: the body as it is.
std::string with_warnings(std::string body, std::string_view warnings);
/// The same for a stream's first event, server-sent or a line; false: the bytes have none.
bool add_to_first_event(std::string& bytes, std::string_view warnings);

}  // namespace cairn::api
