// What tests take from the sources to write documents.
#ifndef HEED_TESTS_TESTING_DOCUMENTS_H_
#define HEED_TESTS_TESTING_DOCUMENTS_H_

#include <cstdio>
#include <fstream>
#include <sstream>
#include <string>

namespace heed {

inline std::string ReadText(const std::string& path) {
  std::ifstream file(path);
  std::ostringstream text;
  text << file.rdbuf();
  return text.str();
}

// What follows "// " in the lines with which a text begins.
inline std::string FirstComment(const std::string& text) {
  std::istringstream lines(text);
  std::string comment;
  for (std::string line; std::getline(lines, line) && line.starts_with("//");)
    comment += (line.size() > 3 ? line.substr(3) : "") + "\n";
  return comment;
}

// The words behind the line of a table that begins so: "VARIANT(full,".
inline std::string WordsBehind(const std::string& begin, const std::string& table) {
  std::istringstream lines(ReadText(table));
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with(begin)) return line.substr(line.find("// ") + 3);
  }
  return "";
}

// 1234567 as "1.2M".
inline std::string Short(double number) {
  const char* units[] = {"", "k", "M", "G", "T"};
  int unit = 0;
  for (; number >= 1000 && unit < 4; ++unit) number /= 1000;
  char text[32];
  std::snprintf(text, sizeof(text), unit > 0 && number < 100 ? "%.1f%s" : "%.0f%s", number, units[unit]);
  return text;
}

}  // namespace heed

#endif  // HEED_TESTS_TESTING_DOCUMENTS_H_
