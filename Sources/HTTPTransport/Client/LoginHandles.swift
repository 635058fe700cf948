internal import CLibcurl
import FeedVocabulary

/// Easy handles that have answered a challenge, kept because the server's nonce lives in them: the next request on one
/// is answered without a challenge. Touched on the loop thread only.
final class LoginHandles {
    private struct Key: Hashable { let origin: WebOrigin, login: HTTPLogin }
    /// As many as transfers to one origin; more logins than that at a time are rare.
    private static let capacity = HTTPLimits.transfersPerOrigin
    private var handles: [(key: Key, easy: OpaquePointer)] = []

    deinit { for handle in handles { curl_easy_cleanup(UnsafeMutableRawPointer(handle.easy)) } }

    func take(_ origin: WebOrigin, _ login: HTTPLogin) -> OpaquePointer? {
        let key = Key(origin: origin, login: login)
        return handles.lastIndex { $0.key == key }.map { handles.remove(at: $0).easy }
    }

    func give(_ easy: OpaquePointer, _ origin: WebOrigin, _ login: HTTPLogin) {
        handles.append((Key(origin: origin, login: login), easy))
        if handles.count > Self.capacity { curl_easy_cleanup(UnsafeMutableRawPointer(handles.removeFirst().easy)) }
    }
}
