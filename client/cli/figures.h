// Numbers as a dashboard shows them: three digits that count, so that a column stays narrow.
#ifndef HEED_CLIENT_CLI_FIGURES_H_
#define HEED_CLIENT_CLI_FIGURES_H_

#include <string>

namespace heed::cli {

// None is negative.
std::string RateText(double number);      // "0", "0.25", "12.5", "1.23k", "3.00M"
std::string BytesText(double bytes);      // "0", "512B", "1.23MB": 10^6
std::string SecondsText(double seconds);  // "0", "850us", "12.5ms", "1.23s", "600s"
std::string UptimeText(double seconds);   // "3h12m5s"

}  // namespace heed::cli

#endif  // HEED_CLIENT_CLI_FIGURES_H_
