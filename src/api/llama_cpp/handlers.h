/// Handlers of llama.cpp's endpoints that have a file of their own: POST /slots/ID and GET /slots (slots.cpp), and
/// those of /v1/stream (streams.cpp).
#pragma once

#include "api/exchange.h"
#include "api/model_list.h"
#include "loader/registry.h"

namespace cairn::api::llama_cpp {

/// The model of ?model=NAME, or the default for chats, which must be loaded.
Result<loader::SharedModel> asked_model(const Exchange& exchange);
/// The same, loaded or not.
Result<ListedModel> asked_listed(const Exchange& exchange, Reading reading);
/// Requests to the model that may run at once.
int32_t sequences_of(const ListedModel& model);

/// One entry for each request that may run at once, those that run first, and the tokens of the conversation that the
/// asker's slot of that number has (engine/slots.h). With ?fail_on_no_slot=1 an Error (503) while all are in use.
Result<void> handle_slots(Exchange& exchange);
/// POST /slots/ID?action=save, restore or erase. Without a disk tier 501, as llama-server without --slot-save-path.
Result<void> handle_slot_action(Exchange& exchange);

/// GET /v1/stream: what a conversation's stream has had from its byte ?from= on, and what is still to come. Server's
/// thread.
Result<void> handle_kept_stream(Exchange& exchange);
/// DELETE /v1/stream.
Result<void> handle_remove_stream(Exchange& exchange);
/// POST /v1/streams/lookup: which conversations have one.
Result<void> handle_find_streams(Exchange& exchange);

}  // namespace cairn::api::llama_cpp
