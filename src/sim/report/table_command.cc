#include "sim/report/table_command.h"

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <cstdio>
#include <fstream>
#include <iterator>
#include <string>
#include <vector>

#include "sim/report/policy_row.h"

namespace kvrouter::sim {

int RunTableCommand(int argc, char** argv) {
  std::vector<std::string> files;
  std::string json_file;
  CLI::App app("Prints the rows of several runs as one table.", "kvrouter-sim table");
  app.add_option("files", files, "JSON files that runs wrote")
      ->required()
      ->check(CLI::ExistingFile);
  app.add_option("--json", json_file, "writes all rows to this file as well");
  CLI11_PARSE(app, argc, argv);

  std::vector<PolicyRow> rows;
  for (const std::string& file : files) {
    std::ifstream in(file, std::ios::binary);
    const std::string text((std::istreambuf_iterator<char>(in)), {});
    const absl::StatusOr<std::vector<PolicyRow>> more = PolicyRowsFromJson(text);
    if (!more.ok()) {
      fmt::print(stderr, "kvrouter-sim table: {}: {}\n", file, more.status().ToString());
      return 1;
    }
    rows.insert(rows.end(), more->begin(), more->end());
  }
  fmt::print("{}", FormatPolicyTable(rows));
  if (json_file.empty()) return 0;
  std::ofstream out(json_file, std::ios::trunc);
  out << PolicyRowsToJson(rows);
  out.close();
  if (out.good()) return 0;
  fmt::print(stderr, "kvrouter-sim table: cannot write {}\n", json_file);
  return 1;
}

}  // namespace kvrouter::sim
