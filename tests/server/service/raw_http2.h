// A client that speaks HTTP/2 by hand, so as to do what no library would: stop in the middle, lie about
// lengths, read nothing.
#ifndef HEED_TESTS_SERVER_SERVICE_RAW_HTTP2_H_
#define HEED_TESTS_SERVER_SERVICE_RAW_HTTP2_H_

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/time.h>
#include <unistd.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "absl/log/check.h"
#include "google/protobuf/message.h"

namespace heed {

// One connection; one call on it, its first stream.
class RawClient {
 public:
  using Headers = std::vector<std::pair<std::string, std::string>>;

  explicit RawClient(int port) : socket_(socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0)) {
    const timeval patience{.tv_sec = 20, .tv_usec = 0};  // a test that would hang fails
    CHECK_EQ(setsockopt(socket_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience)), 0);
    const sockaddr_in address{.sin_family = AF_INET,
                              .sin_port = htons(static_cast<uint16_t>(port)),
                              .sin_addr = {htonl(INADDR_LOOPBACK)},
                              .sin_zero = {}};
    CHECK_EQ(connect(socket_, reinterpret_cast<const sockaddr*>(&address), sizeof(address)), 0);
  }
  ~RawClient() { close(socket_); }

  void Send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = send(socket_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
      if (n <= 0) return;  // closed by the server: a reader will see it
      bytes.remove_prefix(static_cast<size_t>(n));
    }
  }

  // The preface, and windows of 64 KiB that never grow, or as large as can be.
  void Hello(bool large_windows = false) {
    Send("PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
    const std::string largest("\x7f\xff\xff\xff", 4);
    Frame(kSettings, 0, 0, large_windows ? std::string("\0\4", 2) + largest : "");
    if (large_windows) Frame(kWindowUpdate, 0, 0, std::string("\x7f\xfe\0\0", 4));
  }

  // A call's headers, as gRPC's clients send them but for `change`: an empty value takes one away.
  void Call(const std::string& path, const Headers& change = {}) {
    Headers headers = {{":method", "POST"}, {":scheme", "http"}, {":path", path},
                       {":authority", "x"}, {"te", "trailers"},  {"content-type", "application/grpc"}};
    for (const auto& [name, value] : change) {
      std::erase_if(headers, [&name = name](const auto& header) { return header.first == name; });
      if (!value.empty()) headers.emplace_back(name, value);
    }
    std::string block;  // each a literal, not indexed
    for (const auto& [name, value] : headers)
      block += std::string(1, '\0') + static_cast<char>(name.size()) + name +
               static_cast<char>(value.size()) + value;
    Frame(kHeaders, kEndHeaders, 1, block);
  }

  // A message that says it has `declared` bytes, and the end of the request.
  void Message(std::string_view bytes, uint32_t declared) {
    std::string data(1, '\0');
    for (int shift = 24; shift >= 0; shift -= 8) data += static_cast<char>(declared >> shift);
    data += bytes;
    while (data.size() > kMaxFrame) {
      Frame(kData, 0, 1, data.substr(0, kMaxFrame));
      data.erase(0, kMaxFrame);
    }
    Frame(kData, kEndStream, 1, data);
  }
  void Message(const google::protobuf::Message& message) {
    const std::string bytes = message.SerializeAsString();
    Message(bytes, static_cast<uint32_t>(bytes.size()));
  }

  // Takes the call back.
  void Reset() { Frame(kReset, 0, 1, std::string("\0\0\0\x08", 4)); }

  // Until the server has seen all that was sent.
  void Ping() {
    constexpr std::string_view kPayload = "seen it?";
    Frame(kPing, 0, 0, kPayload);
    while (read_.find(kPayload) == std::string::npos && Read()) {
    }
  }

  // The call's status, as the first trailers of a connection spell it; -1 if the connection ends without.
  int Status() {
    while (true) {
      for (size_t digits : {1, 2}) {
        const std::string key = std::string("grpc-status") + static_cast<char>(digits);
        const size_t at = read_.find(key);
        if (at != std::string::npos && at + key.size() + digits <= read_.size())
          return std::stoi(read_.substr(at + key.size(), digits));
      }
      if (read_.size() > 2 * kKept) read_.erase(0, read_.size() - kKept);
      if (!Read()) return -1;
    }
  }
  // True when the server has closed the connection.
  bool Closed() {
    while (Read()) {
    }
    return closed_;
  }
  const std::string& last_read() const { return read_; }

 private:
  static constexpr char kData = 0, kHeaders = 1, kReset = 3, kSettings = 4, kPing = 6, kWindowUpdate = 8;
  static constexpr char kEndStream = 1, kEndHeaders = 4;
  static constexpr size_t kMaxFrame = 16384, kKept = 1 << 16;

  void Frame(char type, char flags, char stream, std::string_view payload) {
    std::string frame;
    for (int shift = 16; shift >= 0; shift -= 8) frame += static_cast<char>(payload.size() >> shift);
    frame += type;
    frame += flags;
    frame += std::string(3, '\0') + stream;
    Send(frame.append(payload));
  }

  bool Read() {
    char bytes[65536];
    const ssize_t n = read(socket_, bytes, sizeof(bytes));
    if (n > 0) read_.append(bytes, static_cast<size_t>(n));
    closed_ = n == 0 || (n < 0 && errno == ECONNRESET);
    return n > 0;
  }

  const int socket_;
  std::string read_;
  bool closed_ = false;
};

}  // namespace heed

#endif  // HEED_TESTS_SERVER_SERVICE_RAW_HTTP2_H_
