#ifndef KVROUTER_ADAPTERS_PEER_PEER_DUMPS_H_
#define KVROUTER_ADAPTERS_PEER_PEER_DUMPS_H_

#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "adapters/peer/peer_dump.h"
#include "base/clock.h"
#include "base/mutex.h"
#include "service/peer_blocks.h"

namespace kvrouter {

struct PeerDumpsConfig {
  std::vector<std::string> peers;  // HOST:PORT or http://HOST:PORT, asked in this order
  // For one round through the peers together.
  std::chrono::milliseconds timeout{5000};
  uint64_t max_dump_bytes = uint64_t{1} << 30;
};

// OK, or which peer cannot be one and why.
absl::Status Validate(const PeerDumpsConfig& config);

// Label values of kvrouter_peer_dumps_total.
enum class PeerDumpResult : uint8_t { kOk, kUnreachable, kTooLarge, kMalformed };
inline constexpr int kPeerDumpResultCount = 4;
std::string_view PeerDumpResultName(PeerDumpResult result);

// Label values of kvrouter_peer_ranks_total: what became of a rank that was asked for.
enum class PeerRankOutcome : uint8_t {
  kTaken,
  kOutdone,     // the engine itself told something meanwhile
  kUnknown,     // no peer that answered knows it
  kUnanswered,  // no peer answered
};
inline constexpr int kPeerRankOutcomeCount = 4;
std::string_view PeerRankOutcomeName(PeerRankOutcome outcome);

// Blocks from other routers' GET /dump, Dynamo's included. One thread goes through the peers for
// all ranks that have been asked for since the last round: a dump holds all ranks, so a round costs
// as much for one as for a thousand. A moment is waited first, since ranks come in flocks.
//
// Thread safety: Start and Stop from one thread, the rest from any.
class PeerDumps final : public PeerBlockSource {
 public:
  PeerDumps(PeerDumpsConfig config, const Clock* clock);
  ~PeerDumps() override;  // stops

  absl::Status Start();
  // Answers what is asked for with CANCELLED; within a moment, unless a name look-up hangs.
  void Stop();

  bool HasPeers() const override { return !config_.peers.empty(); }
  void Request(const WorkerSpec& spec, uint32_t dp_rank, Answer answer) override;
  void CountUse(Use use, uint64_t blocks) override;

  struct Figures {
    std::array<uint64_t, kPeerDumpResultCount> dumps{};   // by result
    std::array<uint64_t, kPeerRankOutcomeCount> ranks{};  // by outcome
    uint64_t blocks_taken = 0;
    std::string failure;  // of the last peer that could not be used; empty: the last one could
  };
  Figures Read() const;

 private:
  struct Wished {
    PeerWish wish;
    Answer answer;
  };

  void Run();
  bool WaitForWishes(std::vector<Wished>* out);
  void Round(std::vector<Wished> wished);
  // Answers those that the peer knows; the others are left in `wished`. False: no dump.
  bool AskPeer(const std::string& peer, MonotonicTime deadline, std::vector<Wished>* wished);
  bool Stopping() const;
  void CountDump(PeerDumpResult result, std::string failure);

  const PeerDumpsConfig config_;
  const Clock* const clock_;

  mutable Mutex mu_;
  CondVar wake_;
  bool stop_ ABSL_GUARDED_BY(mu_) = false;
  std::vector<Wished> wished_ ABSL_GUARDED_BY(mu_);  // as many as registered ranks, about
  Figures figures_ ABSL_GUARDED_BY(mu_);
  std::jthread thread_;
};

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_PEER_PEER_DUMPS_H_
