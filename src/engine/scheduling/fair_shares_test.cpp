#include "engine/scheduling/fair_shares.h"

#include <gtest/gtest.h>

namespace cairn::engine {
namespace {

const Party kA = party_of("a", "");
const Party kA1 = party_of("a", "one");
const Party kA2 = party_of("a", "two");
const Party kB = party_of("b", "");

TEST(Party, IsTheHashesOfClientAndTenantWithZeroForNoTenant) {
  EXPECT_EQ(kA, party_of("a", ""));
  EXPECT_NE(kA, kB);
  EXPECT_NE(kA1, kA2);
  EXPECT_EQ(kA1.client, kA.client);
  EXPECT_EQ(kA1.tenant, party_of("b", "one").tenant);
  EXPECT_EQ(kA.tenant, kNoTenant);
  EXPECT_NE(kA1.tenant, kNoTenant);
}

TEST(Holdings, AClientHasTheSumOfItsTenants) {
  Holdings holdings;
  holdings.add(kA1, 3);
  holdings.add(kA2, 2);
  EXPECT_EQ(holdings.of(kA1), (Held{5, 3}));
  EXPECT_EQ(holdings.of(kA), (Held{5, 0}));
  EXPECT_EQ(holdings.of(kB), (Held{0, 0}));
  EXPECT_LT(holdings.of(kB), holdings.of(kA));
  EXPECT_LT(holdings.of(kA2), holdings.of(kA1));
}

TEST(Holdings, APartyYieldsOnlyToOneThatHasAtLeastTwoLess) {
  Holdings holdings;
  holdings.add(kA1, 1);
  EXPECT_FALSE(holdings.yields(kA1, kB)) << "it would have less then";
  EXPECT_FALSE(holdings.yields(kA1, kA2));
  holdings.add(kA1, 1);
  EXPECT_TRUE(holdings.yields(kA1, kB));
  EXPECT_TRUE(holdings.yields(kA1, kA2)) << "tenants of one client share as well";
  EXPECT_FALSE(holdings.yields(kA1, kA1));
  EXPECT_TRUE(holdings.somebody_yields(kB));
  EXPECT_TRUE(holdings.somebody_yields(kA2));
  EXPECT_FALSE(holdings.somebody_yields(kA1));
  holdings.add(kB, 1);
  EXPECT_FALSE(holdings.somebody_yields(kB));
  EXPECT_FALSE(holdings.yields(kA1, kB));
  EXPECT_FALSE(holdings.yields(kB, kA1));
}

TEST(Holdings, APartyThatComesBackStartsWithTheSmallestAmount) {
  Holdings holdings;
  const auto wanting = [&](std::initializer_list<Party> parties) {
    holdings.begin();
    for (const Party& party : parties) holdings.want(party);
    holdings.settle();
  };
  wanting({kA1, kB});
  holdings.add(kA1, 100);
  holdings.add(kB, 60);
  wanting({kA1, kB, kA2});
  EXPECT_EQ(holdings.of(kA2), (Held{100, 100})) << "among its client's it has what the least of them has";
  wanting({kA1, kB, party_of("c", "")});
  EXPECT_EQ(holdings.of(party_of("c", "")), (Held{60, 0}));
  wanting({kA1});
  EXPECT_EQ(holdings.of(kB), (Held{0, 0})) << "forgotten";
  wanting({kA1, kB});
  EXPECT_EQ(holdings.of(kB), (Held{100, 0}));
  wanting({});
  wanting({kA1});
  EXPECT_EQ(holdings.of(kA1), (Held{0, 0}));
}

}  // namespace
}  // namespace cairn::engine
