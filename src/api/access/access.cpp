#include "api/access/access.h"

#include <algorithm>
#include <utility>

#include "api/access/credentials.h"
#include "base/log.h"
#include "base/system/random_id.h"
#include "base/text/glob.h"

namespace cairn::api {
Principal::Principal(KeyRules rules, std::shared_ptr<RateMeter> meter)
    : rules_(std::move(rules)), meter_(std::move(meter)) {
  if (rules_.models.empty()) return;
  models_ =
      loader::ModelScope([patterns = rules_.models](std::string_view name, const std::vector<std::string>& aliases) {
        return std::ranges::any_of(patterns, [&](const std::string& pattern) {
          return glob_matches(pattern, name) ||
                 std::ranges::any_of(aliases, [&](const std::string& alias) { return glob_matches(pattern, alias); });
        });
      });
}

const Principal& principal_of(const net::HttpRequest& request) {
  static const Principal kAnybody;
  // Nothing else is ever an owner here.
  return request.owner == nullptr ? kAnybody : static_cast<const Principal&>(*request.owner);
}

Access::Access(AccessOptions options) : options_(std::move(options)), pepper_(random_id() + random_id()) {}

Result<std::unique_ptr<Access>> Access::make(AccessOptions options) {
  auto made = std::unique_ptr<Access>(new Access(std::move(options)));
  for (const std::string& text : made->options_.keys) {
    auto key = key_of(text, {.manages = true});
    if (!key) return fail(key.error().code, "--api-key: {}", key.error().message);
    made->flag_keys_.push_back(*std::move(key));
  }
  made->options_.keys.clear();
  CAIRN_TRY_VOID(made->reload());
  return made;
}

net::Sha256 Access::peppered(const net::Sha256& digest) const {
  return net::sha256(pepper_ + std::string(digest.begin(), digest.end()));
}

Result<std::vector<Key>> Access::read_keys() const {
  std::vector<Key> keys = flag_keys_;
  if (options_.key_file.empty()) return keys;
  CAIRN_TRY(const std::string text, read_key_text(options_.key_file));
  CAIRN_TRY(std::vector<Key> of_file, parse_keys(text, options_.key_file));
  keys.insert(keys.end(), std::make_move_iterator(of_file.begin()), std::make_move_iterator(of_file.end()));
  return keys;
}

Result<void> Access::reload() {
  CAIRN_TRY(std::vector<Key> keys, read_keys());
  const std::lock_guard lock(mutex_);
  std::unordered_map<std::string, std::shared_ptr<RateMeter>> meters;
  for (const auto& [hash, holder] : *holders_) meters[holder.principal->name()] = holder.principal->meter();
  auto holders = std::make_shared<Holders>();
  const auto now = RateMeter::Clock::now();
  for (Key& key : keys) {
    std::shared_ptr<RateMeter>& meter = meters[key.rules.name];
    if (meter == nullptr) meter = std::make_shared<RateMeter>(key.rules.limits, now);
    meter->set_limits(key.rules.limits, now);
    // A key that both a flag and the file have is the flag's.
    holders->try_emplace(peppered(key.digest),
                         Holder{key.digest, std::make_shared<const Principal>(std::move(key.rules), meter)});
  }
  if (!holders->empty()) log_info("{} API key{} may use this server", holders->size(), holders->size() == 1 ? "" : "s");
  holders_ = std::move(holders);
  return {};
}

bool Access::has_keys() const {
  const std::lock_guard lock(mutex_);
  return !holders_->empty();
}

std::shared_ptr<const Principal> Access::of_key(const net::HttpRequest& request) const {
  std::shared_ptr<const Holders> holders;
  {
    const std::lock_guard lock(mutex_);
    holders = holders_;
  }
  std::shared_ptr<const Principal> principal;
  for (const std::string_view presented : presented_keys(request)) {
    if (presented.empty()) continue;
    const net::Sha256 digest = net::sha256(presented);
    const auto found = holders->find(peppered(digest));
    if (found != holders->end() && net::equal_in_constant_time(found->second.digest, digest) && principal == nullptr)
      principal = found->second.principal;
  }
  return principal;
}

std::shared_ptr<const Principal> Access::of_address(const net::HttpRequest& request) {
  if (!options_.address_limits.any()) return nullptr;
  std::string address = client_of(request);
  if (const auto known = by_address_.find(address); known != by_address_.end()) {
    addresses_.splice(addresses_.begin(), addresses_, known->second);
    return addresses_.front().principal;
  }
  if (addresses_.size() >= options_.addresses_max) {
    by_address_.erase(addresses_.back().address);
    addresses_.pop_back();
  }
  auto meter = std::make_shared<RateMeter>(options_.address_limits);
  addresses_.push_front({address, std::make_shared<const Principal>(std::move(meter))});
  by_address_.emplace(std::move(address), addresses_.begin());
  return addresses_.front().principal;
}

std::variant<AccessTicket, Refusal> Access::enter(std::shared_ptr<const Principal> principal) {
  if (principal->meter() == nullptr) return AccessTicket(std::move(principal));
  const auto refused = principal->meter()->enter(RateMeter::Clock::now());
  if (!refused) return AccessTicket(std::move(principal));
  const std::string whose =
      principal->name().empty() ? "your address" : fmt::format("the API key \"{}\"", principal->name());
  return Refusal{RefusalReason::kOverLimit,
                 fmt::format("Rate limit reached: {} has {}; try again in {:.1f} s", whose, refused->what,
                             std::chrono::duration<double>(refused->retry_after).count()),
                 refused->retry_after, std::move(principal)};
}

// Wrong keys count against the address.
std::variant<AccessTicket, Refusal> Access::refuse_key(const net::HttpRequest& request) {
  if (auto address = of_address(request)) {
    auto entered = enter(std::move(address));
    if (std::holds_alternative<Refusal>(entered)) return entered;
  }
  const auto presented = presented_keys(request);
  const bool none = std::ranges::all_of(presented, [](std::string_view key) { return key.empty(); });
  return Refusal{RefusalReason::kNoKey,
                 none ? "this server needs an API key: send it as \"Authorization: Bearer KEY\" or \"x-api-key: KEY\""
                      : "the API key is not one of this server's",
                 {},
                 nullptr};
}

bool Access::may_send(const net::HttpRequest& head, AccessRule rule) const {
  if (!has_keys()) return true;
  const auto principal = of_key(head);
  return principal != nullptr && (rule != AccessRule::kManagingKey || principal->may_manage());
}

std::variant<AccessTicket, Refusal> Access::admit(const net::HttpRequest& request, AccessRule rule) {
  static const auto kAnybody = std::make_shared<const Principal>();
  if (rule == AccessRule::kOpen) return AccessTicket(kAnybody);
  if (!has_keys()) {
    auto address = of_address(request);
    return enter(address == nullptr ? kAnybody : std::move(address));
  }
  auto principal = of_key(request);
  if (principal == nullptr) return refuse_key(request);
  if (rule == AccessRule::kManagingKey && !principal->may_manage()) {
    return Refusal{RefusalReason::kForbidden,
                   fmt::format("the API key \"{}\" may not manage models: its line in the key file does not say manage",
                               principal->name()),
                   {},
                   nullptr};
  }
  return enter(std::move(principal));
}

}  // namespace cairn::api
