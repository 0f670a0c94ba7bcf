/// llama.cpp's own endpoints: POST /completion and /infill, GET /props, /slots and what is below it, /lora-adapters.
#pragma once

#include <memory>
#include <string_view>

#include "api/service.h"
#include "net/http/http_server.h"

namespace cairn::api::llama_cpp {

void handle_completion(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response);
/// Refuses: filling in the middle is not available.
void handle_infill(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response);
/// GET /lora-adapters: those of ?model=NAME, or of the first one, with the scales of requests that name none.
void handle_lora_adapters(Service& service, const net::HttpRequest& request,
                          std::shared_ptr<net::HttpResponse> response);
/// POST /lora-adapters: sets those scales for requests that come from then on; 0 for what is left out.
void handle_set_lora_adapters(Service& service, const net::HttpRequest& request,
                              std::shared_ptr<net::HttpResponse> response);
/// What the server serves, and how it samples where /completion says nothing; ?model=NAME, or the first one.
void handle_props(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response);
inline constexpr std::string_view kSlotsPrefix = "/slots/";
/// One entry for each request that may run at once, those that run first, and the tokens of the conversation that the
/// asker's slot of that number has (engine/slots.h). With ?fail_on_no_slot=1 an Error (503) while all are in use.
void handle_slots(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response);
/// POST /slots/ID?action=save, restore or erase. Without a disk tier 501, as llama-server without --slot-save-path.
void handle_slot_action(Service& service, const net::HttpRequest& request, std::shared_ptr<net::HttpResponse> response);

}  // namespace cairn::api::llama_cpp
