#include <string>

#include <doctest/doctest.h>

#include "parallel/pipeline/schedule_csv.h"
#include "parallel/pipeline/schedules.h"
#include "tests/support/files/mutations.h"

namespace heddle::test {

using namespace std::string_literals;

TEST_CASE("schedule csv: mutated files are read or refused with their name") {
  const std::string schedules[] = {to_csv(gpipe({3, 3})), to_csv(zb_h1({4, 4})), "0F1,,(0F2;0B1)OVERLAP_F_B\n0B0,0W0\n",
                                   "0UNSHARD,0F0,0SEND_F0,,0RECV_B0\r\n1F0,1I0,1W0,1REDUCE_GRAD\r\n"};
  check_mutations(4000, 0.5, "f.csv:", [&](RandomStream& draws) {
    const std::string& whole = schedules[draws.below(std::size(schedules))];
    (void)from_csv(mutated(whole, "0123456789FBIWSEND_(;),\n\r\0\xff "s, draws), "f.csv");
  });
}

}  // namespace heddle::test
