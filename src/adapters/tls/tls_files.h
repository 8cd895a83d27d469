#ifndef KVROUTER_ADAPTERS_TLS_TLS_FILES_H_
#define KVROUTER_ADAPTERS_TLS_TLS_FILES_H_

#include <string>
#include <string_view>

#include "absl/status/status.h"

namespace kvrouter {

// A file and the setting that names it.
struct TlsFile {
  std::string_view setting;
  std::string path;  // empty: none is named
};

struct TlsFiles {
  TlsFile certificate;  // both or none
  TlsFile key;
  TlsFile authorities;
};

// Whether certificate and key are both named, or none; nothing is read. Errors as below.
absl::Status CheckTlsPair(const TlsFiles& files);
// Whether the files can be used, for whoever starts with them: read as they will be, and forgotten.
// INVALID_ARGUMENT naming the setting, the file and what is wrong with it.
absl::Status CheckTlsFiles(const TlsFiles& files);

}  // namespace kvrouter

#endif  // KVROUTER_ADAPTERS_TLS_TLS_FILES_H_
