// A connection made by hand, of bytes.
#ifndef HEED_CLIENT_DIAL_H_
#define HEED_CLIENT_DIAL_H_

#include <optional>
#include <string>
#include <string_view>

namespace heed {

// The host of HOST:PORT and [IPV6]:PORT, without brackets; "localhost" of unix:PATH.
std::string HostOf(std::string_view address);

// Whatever it does takes three seconds at most.
class Connection {
 public:
  // HOST:PORT or unix:PATH; nullopt if nobody takes it.
  static std::optional<Connection> Dial(const std::string& address);
  ~Connection();
  Connection(Connection&& other) noexcept;
  Connection& operator=(Connection&&) = delete;

  bool Send(std::string_view bytes);
  // What comes next, empty if nothing does: closed() tells whether anything still may.
  std::string Receive();
  bool closed() const { return closed_; }

 private:
  explicit Connection(int descriptor) : descriptor_(descriptor) {}

  int descriptor_;
  bool closed_ = false;  // by the other side
};

}  // namespace heed

#endif  // HEED_CLIENT_DIAL_H_
