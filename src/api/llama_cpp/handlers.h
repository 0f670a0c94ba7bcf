/// llama.cpp's own endpoints: POST /completion and /infill, GET /props, /slots and what is below it, /lora-adapters,
/// and /v1/stream.
#pragma once

#include <memory>
#include <string_view>

#include "api/service.h"
#include "net/http/http_server.h"

namespace cairn::api::llama_cpp {

void handle_completion(Service& service, RequestContext& context, const net::HttpRequest& request,
                       std::shared_ptr<net::HttpResponse> response);
/// Refuses: filling in the middle is not available.
void handle_infill(Service& service, RequestContext& context, const net::HttpRequest& request,
                   std::shared_ptr<net::HttpResponse> response);
/// GET /lora-adapters: those of ?model=NAME, or of the first one, with the scales of requests that name none.
void handle_lora_adapters(Service& service, RequestContext& context, const net::HttpRequest& request,
                          std::shared_ptr<net::HttpResponse> response);
/// POST /lora-adapters: sets those scales for requests that come from then on; 0 for what is left out.
void handle_set_lora_adapters(Service& service, RequestContext& context, const net::HttpRequest& request,
                              std::shared_ptr<net::HttpResponse> response);
/// What the server serves, and how it samples where /completion says nothing; ?model=NAME, or the first one.
void handle_props(Service& service, RequestContext& context, const net::HttpRequest& request,
                  std::shared_ptr<net::HttpResponse> response);
/// One entry for each request that may run at once, those that run first, and the tokens of the conversation that the
/// asker's slot of that number has (engine/slots.h). With ?fail_on_no_slot=1 an Error (503) while all are in use.
void handle_slots(Service& service, RequestContext& context, const net::HttpRequest& request,
                  std::shared_ptr<net::HttpResponse> response);
/// POST /slots/ID?action=save, restore or erase. Without a disk tier 501, as llama-server without --slot-save-path.
void handle_slot_action(Service& service, RequestContext& context, const net::HttpRequest& request,
                        std::shared_ptr<net::HttpResponse> response);

/// GET /v1/stream: what a conversation's stream has had from its byte ?from= on, and what is still to come. Server's
/// thread.
void handle_kept_stream(Service& service, RequestContext& context, const net::HttpRequest& request,
                        std::shared_ptr<net::HttpResponse> response);
/// DELETE /v1/stream.
void handle_remove_stream(Service& service, RequestContext& context, const net::HttpRequest& request,
                          std::shared_ptr<net::HttpResponse> response);
/// POST /v1/streams/lookup: which conversations have one.
void handle_find_streams(Service& service, RequestContext& context, const net::HttpRequest& request,
                         std::shared_ptr<net::HttpResponse> response);

}  // namespace cairn::api::llama_cpp
