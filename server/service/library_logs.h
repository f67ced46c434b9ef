// What gRPC and protobuf would print: they put clients' bytes in their messages. Of gRPC's, the place is
// logged and the text dropped, ten lines a second at most; protobuf's are dropped.
#ifndef HEED_SERVER_SERVICE_LIBRARY_LOGS_H_
#define HEED_SERVER_SERVICE_LIBRARY_LOGS_H_

namespace heed {

void TameLibraryLogs();

}  // namespace heed

#endif  // HEED_SERVER_SERVICE_LIBRARY_LOGS_H_
