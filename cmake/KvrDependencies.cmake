# All dependencies are Debian 12 packages (deploy/packages lists them). Gotchas of those packages:
#  - Protobuf ships no CMake config: module mode only.
#  - xxHash, libzmq, liblzma come through pkg-config; so does NATS.c, whose CMake config names an archive that is not packaged.
#  - absl::string_view is not std::string_view here: absl/strings stays out of our interfaces.
find_package(Threads REQUIRED)
find_package(PkgConfig REQUIRED)
find_package(absl CONFIG REQUIRED)
find_package(fmt CONFIG REQUIRED)
find_package(ZLIB REQUIRED)
find_package(LibLZMA REQUIRED)
find_package(GTest CONFIG REQUIRED)
find_package(nlohmann_json CONFIG REQUIRED)
find_package(simdjson CONFIG REQUIRED)
pkg_check_modules(XXHASH REQUIRED IMPORTED_TARGET libxxhash)

if(NOT KVR_PURE_ONLY)
  find_package(Protobuf REQUIRED)
  find_package(gRPC CONFIG REQUIRED)
  find_package(spdlog CONFIG REQUIRED)
  find_package(prometheus-cpp CONFIG REQUIRED)
  find_package(yaml-cpp REQUIRED)
  find_package(CLI11 CONFIG REQUIRED)
  find_package(Boost 1.81 REQUIRED)          # Asio and Beast are header-only
  find_package(cppzmq CONFIG REQUIRED)
  find_package(OpenSSL REQUIRED)             # nkeys of NATS, TLS to the Kubernetes API server
  pkg_check_modules(NATS REQUIRED IMPORTED_TARGET libnats)
  find_package(benchmark CONFIG REQUIRED)
endif()
