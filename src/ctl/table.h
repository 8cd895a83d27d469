#ifndef KVROUTER_CTL_TABLE_H_
#define KVROUTER_CTL_TABLE_H_

#include <cstdint>
#include <string>
#include <vector>

namespace kvrouter::ctl {

// Text in aligned columns, two spaces apart: numbers to the right, the rest to the left, no
// trailing blanks.
class Table {
 public:
  explicit Table(std::vector<std::string> titles);

  // REQUIRES: as many cells as titles.
  void AddRow(std::vector<std::string> cells);
  std::string Text() const;

 private:
  std::vector<std::vector<std::string>> rows_;  // the first are the titles
};

// At most `decimals` decimals, without trailing zeros: 12, 0.75, 1234.5.
std::string Number(double value, int decimals = 3);

}  // namespace kvrouter::ctl

#endif  // KVROUTER_CTL_TABLE_H_
