// Bodies of the HTTP selection and indexer APIs: any bytes give a body or an error, and reading in
// place and from a copy agree.
#include <cstddef>
#include <cstdint>
#include <string>

#include "adapters/http/indexer_bodies.h"
#include "adapters/http/selection_bodies.h"
#include "base/check.h"

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  using namespace kvrouter;
  if (size == 0) return 0;
  const std::string text(reinterpret_cast<const char*>(data) + 1, size - 1);
  std::string roomy = text;
  roomy.reserve(text.size() + 128);
  std::string tight = text;
  tight.shrink_to_fit();
  const auto kind = static_cast<BodyKind>(data[0] % 3);
  const auto in_place = ReadSelectionBody(roomy, kind);
  const auto copied = ReadSelectionBody(tight, kind);
  KVR_CHECK(in_place.status() == copied.status(), "in place and copied differ");
  if (in_place.ok()) {
    KVR_CHECK(in_place->token_ids == copied->token_ids, "tokens differ");
    (void)ToRouteRequest(*in_place);
  }
  if (const auto worker = ReadWorkerBody(text); worker.ok())
    (void)ReadWorkerPatch(text, worker->spec);
  (void)ReadOutputBlockBody(text);
  (void)ReadRegisterBody(text);
  (void)ReadUnregisterBody(text);
  (void)ReadPeerBody(text);
  const auto query = ReadQueryBody(roomy);
  KVR_CHECK(query.status() == ReadQueryBody(tight).status(), "queries differ");
  (void)ReadQueryByHashBody(roomy);
  return 0;
}
