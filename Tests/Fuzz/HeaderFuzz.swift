import EventLoop
import FeedVocabulary
import HTTPTransport

/// Any input at all must be read or refused, in bounded time and memory, and what is read must make sense.
@_cdecl("LLVMFuzzerTestOneInput")
public func testOneInput(_ data: UnsafePointer<UInt8>?, _ count: Int) -> CInt {
    let bytes = Array(UnsafeBufferPointer(start: data, count: count))
    let text = String(decoding: bytes, as: UTF8.self)
    if let range = ContentRange(text)?.range {
        precondition(range.lowerBound >= 0 && range.lowerBound < range.upperBound)
        if let total = ContentRange(text)?.total { precondition(range.upperBound <= total) }
    }
    if let wait = RetryAfter.delay(text, serverTime: nil, now: .init(secondsSince1970: 1_800_000_000)) {
        precondition(wait >= .zero)
    }
    for challenge in AuthChallenge.parse(text) { precondition(!challenge.scheme.isEmpty) }
    if let boundary = MultipartBody.boundary(text) { precondition((1...70).contains(boundary.utf8.count)) }
    _ = try? WebOrigin(url: text)
    _ = try? WebOrigin.checkCharacters(text)
    _ = CacheKey(url: text)
    precondition(!WebOrigin.redacted(text).contains("?"))
    takeApart(bytes)
    return 0
}

private typealias Arguments = UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>

/// libFuzzer's own loop (llvm.org/docs/LibFuzzer.html, "Using libFuzzer as a library").
@_silgen_name("LLVMFuzzerRunDriver")
private func runDriver(
    _ count: UnsafeMutablePointer<CInt>, _ arguments: UnsafeMutablePointer<Arguments>,
    _ test: @convention(c) (UnsafePointer<UInt8>?, Int) -> CInt
) -> CInt

/// SwiftPM makes this the program's `main`.
@_cdecl("header_fuzz_main")
public func main(_ count: CInt, _ arguments: UnsafeMutablePointer<UnsafeMutablePointer<CChar>?>) -> CInt {
    var (count, arguments) = (count, arguments)
    return runDriver(&count, &arguments, testOneInput)
}

/// The same body in pieces of any size has the same part.
private func takeApart(_ bytes: [UInt8]) {
    let body = Array("--b\r\nContent-Range: bytes 0-".utf8) + bytes
    var (whole, pieces) = (MultipartBody(boundary: "b"), MultipartBody(boundary: "b"))
    let expected = whole.take(body)
    var got: [UInt8] = []
    let size = max(1, Int(bytes.first ?? 1) % 7)
    for start in stride(from: 0, to: body.count, by: size) {
        got += pieces.take(Array(body[start..<min(start + size, body.count)]))
    }
    if !whole.isBroken { precondition(got == expected) }
}
