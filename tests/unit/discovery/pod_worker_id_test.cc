#include "adapters/discovery/pod_worker_id.h"

#include <gtest/gtest.h>

namespace kvrouter {
namespace {

// From another implementation of SipHash-1-3 with a zero key, CPython's own hash of bytes:
//   PYTHONHASHSEED=0 python3.11 -c 'print((hash(b"vllm-0\xff") & (2**64 - 1)) & 0x1FFFFFFFFFFFFF)'
TEST(PodWorkerIdTest, AgreesWithAnotherImplementation) {
  EXPECT_EQ(PodWorkerId(""), WorkerId{121655548788207});
  EXPECT_EQ(PodWorkerId("a"), WorkerId{7688582637611507});
  EXPECT_EQ(PodWorkerId("vllm-0"), WorkerId{1943803597606491});
  EXPECT_EQ(PodWorkerId("vllm-1"), WorkerId{6550146066618770});
  EXPECT_EQ(PodWorkerId("abcdefg"), WorkerId{6174053019126505});  // one whole word with the 0xFF
  EXPECT_EQ(PodWorkerId("abcdefgh"), WorkerId{6585523417738262});
  EXPECT_EQ(PodWorkerId("decode-5d8f7b9c4-x2x9k"), WorkerId{3946694236391484});
  EXPECT_EQ(PodWorkerId("worker-0123456789abcdef"), WorkerId{7828160197653365});
}

}  // namespace
}  // namespace kvrouter
