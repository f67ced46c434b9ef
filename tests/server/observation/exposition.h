// Metrics as they are scraped: the text, taken apart.
#ifndef HEED_TESTS_SERVER_OBSERVATION_EXPOSITION_H_
#define HEED_TESTS_SERVER_OBSERVATION_EXPOSITION_H_

#include <algorithm>
#include <map>
#include <set>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

namespace heed {

struct ExposedFamily {
  std::string type, help;
  std::set<std::string> labels;  // of any of its lines, but `le` and `quantile`
};

// "name{one=\"1\",two=\"2\"} 3": name, and the labels' names.
inline std::pair<std::string, std::set<std::string>> ParseSeries(const std::string& line) {
  const size_t brace = line.find('{'), space = line.find(' ');
  std::set<std::string> labels;
  if (brace == line.npos || brace > space) return {line.substr(0, space), labels};
  for (size_t begin = brace + 1; line[begin - 1] != '}';) {
    const size_t equals = line.find('=', begin);
    labels.insert(line.substr(begin, equals - begin));
    begin = line.find('"', equals + 2) + 2;  // no value of ours has a quote
  }
  labels.erase("le");
  labels.erase("quantile");
  return {line.substr(0, brace), labels};
}

inline std::map<std::string, ExposedFamily> ParseExposition(const std::string& exposition) {
  std::map<std::string, ExposedFamily> families;
  std::string line, name, last;
  for (std::istringstream lines{exposition}; std::getline(lines, line);) {
    if (line.starts_with("# HELP ") || line.starts_with("# TYPE ")) {
      const size_t space = line.find(' ', 7);
      last = line.substr(7, space - 7);
      (line[2] == 'H' ? families[last].help : families[last].type) = line.substr(space + 1);
    } else if (!last.empty() && line.starts_with(last)) {
      families[last].labels.merge(ParseSeries(line).second);
    }
  }
  return families;
}

inline std::set<std::string> Families(const std::string& exposition) {
  std::set<std::string> names;
  for (const auto& [name, family] : ParseExposition(exposition)) names.insert(name);
  return names;
}

// What a family counts: its values together, or for a histogram or summary its observations; of those lines
// that have these labels: {"grpc_method=\"Classify\""}.
inline double MetricSum(const std::string& exposition, const std::string& family,
                        const std::vector<std::string>& labels = {}) {
  const bool observes = exposition.find("\n" + family + "_count") != exposition.npos;
  const std::string name = observes ? family + "_count" : family;
  double sum = 0;
  std::string line;
  for (std::istringstream lines{exposition}; std::getline(lines, line);) {
    const auto has = [&](const std::string& label) { return line.find(label) != line.npos; };
    if ((line.starts_with(name + " ") || line.starts_with(name + "{")) && std::ranges::all_of(labels, has))
      sum += std::stod(line.substr(line.rfind(' ')));
  }
  return sum;
}

}  // namespace heed

#endif  // HEED_TESTS_SERVER_OBSERVATION_EXPOSITION_H_
