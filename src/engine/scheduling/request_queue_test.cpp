#include "engine/scheduling/request_queue.h"

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "engine/scheduling/fair_shares.h"

namespace cairn::engine {
namespace {

std::unique_ptr<Submission> submission(const std::string& client, const std::string& id, const std::string& tenant = "",
                                       int64_t deadline_ns = 0) {
  auto made = std::make_unique<Submission>();
  made->request.id = id;
  made->party = party_of(client, tenant);
  made->deadline_ns = deadline_ns;
  return made;
}
/// The id of the displaced request; "" if there was room, "refused" if the request did not get in.
std::string push(RequestQueue& queue, const std::string& client, const std::string& id,
                 const std::string& tenant = "") {
  auto displaced = queue.push(submission(client, id, tenant));
  if (!displaced) {
    EXPECT_EQ(displaced.error().code, Code::kQueueFull);
    return "refused";
  }
  return *displaced == nullptr ? "" : (*displaced)->request.id;
}
constexpr auto kByDeadline = [](const Waiting& a, const Waiting& b) { return a.deadline_ns < b.deadline_ns; };

TEST(RequestQueue, OneClientAloneMayFillTheQueue) {
  RequestQueue queue(3);
  for (const char* id : {"1", "2", "3"}) EXPECT_EQ(push(queue, "a", id), "");
  EXPECT_EQ(push(queue, "a", "4"), "refused");
  EXPECT_EQ(queue.size(), 3);
}

TEST(RequestQueue, AFullQueueAdmitsOtherClientsUntilAllHaveEqualShares) {
  RequestQueue queue(6);
  for (const char* id : {"a1", "a2", "a3", "a4", "a5", "a6"}) push(queue, "a", id);
  EXPECT_EQ(push(queue, "b", "b1"), "a6");
  EXPECT_EQ(push(queue, "b", "b2"), "a5");
  EXPECT_EQ(push(queue, "c", "c1"), "a4");
  EXPECT_EQ(push(queue, "a", "a7"), "refused");
  EXPECT_EQ(push(queue, "b", "b3"), "refused") << "a has but one more";
  EXPECT_EQ(push(queue, "d", "d1"), "a3");
  EXPECT_EQ(push(queue, "e", "e1"), "b2") << "of those who have most the newest";
  EXPECT_EQ(push(queue, "f", "f1"), "a2");
  EXPECT_EQ(push(queue, "g", "g1"), "refused") << "all have one";
  EXPECT_EQ(queue.size(), 6);
}

TEST(RequestQueue, TenantsOfOneClientShareTheClientsPartOfTheQueue) {
  RequestQueue queue(4);
  for (const char* id : {"1", "2", "3"}) push(queue, "a", id, "greedy");
  push(queue, "b", "4");
  EXPECT_EQ(push(queue, "a", "5", "modest"), "3");
  EXPECT_EQ(push(queue, "a", "6", "made up"), "2");
  EXPECT_EQ(push(queue, "a", "7", "made up, too"), "refused");
  EXPECT_EQ(push(queue, "b", "8"), "6") << "keys do not make an address's part larger";
}

TEST(RequestQueue, PopsInTheOrderOfTheGivenComparison) {
  RequestQueue queue(8);
  for (const auto& [id, deadline] : {std::pair("late", 9), std::pair("soon", 3), std::pair("soon, too", 3)}) {
    EXPECT_TRUE(queue.push(submission("a", id, "", deadline)).has_value());
  }
  auto batch = submission("a", "batch", "", 1);
  batch->request.priority = Priority::kBatch;
  EXPECT_TRUE(queue.push(std::move(batch)).has_value());
  EXPECT_EQ(queue.first(Priority::kInteractive, kByDeadline)->deadline_ns, 3);
  for (const char* id : {"soon", "soon, too", "late"}) {
    EXPECT_TRUE(queue.has(Priority::kInteractive));
    EXPECT_EQ(queue.pop(Priority::kInteractive, kByDeadline)->request.id, id);
  }
  EXPECT_FALSE(queue.has(Priority::kInteractive));
  EXPECT_FALSE(queue.first(Priority::kInteractive, kByDeadline).has_value());
  EXPECT_EQ(queue.pop(Priority::kInteractive, kByDeadline), nullptr);
  EXPECT_EQ(queue.pop_any()->request.id, "batch");
  EXPECT_EQ(queue.pop_any(), nullptr);
  EXPECT_EQ(queue.size(), 0);
}

TEST(Tenants, ATenantHasALimitAndAClientHasOneForAllItsTenants) {
  constexpr int32_t kMax = 2;
  Tenants tenants(kMax);
  std::vector<TenantTicket> tickets;
  const auto admitted = [&](const std::string& client, const std::string& tenant) {
    auto ticket = tenants.admit(client, tenant);
    if (ticket) tickets.push_back(std::move(*ticket));
    return ticket.has_value();
  };
  EXPECT_TRUE(admitted("a", "key"));
  EXPECT_TRUE(admitted("b", "key"));
  EXPECT_FALSE(admitted("c", "key")) << "a key counts wherever it comes from";
  tickets.clear();
  int32_t count = 0;
  for (int i = 0; i < 100; ++i) count += admitted("a", "made up " + std::to_string(i)) ? 1 : 0;
  EXPECT_EQ(count, kTenantsOfClient * kMax);
  EXPECT_FALSE(admitted("a", ""));
  EXPECT_TRUE(admitted("b", ""));
  tickets.clear();
  count = 0;
  for (int i = 0; i < 100; ++i) count += admitted("a", "") ? 1 : 0;
  EXPECT_EQ(count, kMax) << "without a key an address is one tenant";
  EXPECT_TRUE(admitted("b", ""));
}

}  // namespace
}  // namespace cairn::engine
