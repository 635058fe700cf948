import FeedVocabulary
import Testing

@Suite("Cache key") struct CacheKeyTests {
    @Test(
        "MD5 agrees with the test suite of RFC 1321",
        arguments: [
            ("", "d41d8cd98f00b204e9800998ecf8427e"), ("a", "0cc175b9c0f1b6a831c399e269772661"),
            ("message digest", "f96b697d7cb7938d525a2f31aaf161d0"),
            (
                "12345678901234567890123456789012345678901234567890123456789012345678901234567890",
                "57edf4a22be3c955ac49da2e2107b67a"
            ),
        ]) func md5(text: String, digest: String)
    { #expect(MD5.hexDigest(of: text.utf8) == digest) }

    @Test(
        "INPUT-6: anything but letters and digits is refused by name",
        arguments: ["../../x", "a/b", ".", "a b", "é", "x\0"])
    func illegal(text: String) { #expect(throws: CacheKeyError.self) { try CacheKey(text) } }

    @Test("INPUT-6: an empty key is refused; two that differ in case are two") func cases() throws {
        #expect(throws: CacheKeyError.empty) { try CacheKey("") }
        #expect(try CacheKey("abc") != CacheKey("ABC"))
    }

    @Test("the default key drops signatures and fragments, and nothing else") func signatures() {
        let plain = CacheKey(url: "http://h/v.mp4?id=7")
        #expect(CacheKey(url: "http://h/v.mp4?id=7&X-Amz-Signature=abc&Expires=9#t=3") == plain)
        #expect(CacheKey(url: "http://h/v.mp4?sig=a&id=7") == plain)
        #expect(CacheKey(url: "http://h/v.mp4?id=8") != plain)
        #expect(CacheKey(url: "http://h/A/media.mp3") != CacheKey(url: "http://h/B/media.mp3"))  // CACHE-1
    }
}

@Suite("Web origin") struct WebOriginTests {
    @Test("scheme and host lose their case, the default port is filled in") func normal() throws {
        let origin = try WebOrigin(url: "HTTPS://User:Pass@Example.COM/x?y")
        #expect((origin.scheme, origin.host, origin.port) == ("https", "example.com", 443))
        #expect(try WebOrigin(url: "http://[::1]:8080/").host == "[::1]")
        #expect(try WebOrigin(url: "http://h:81/") != WebOrigin(url: "http://h/"))
    }
    @Test("INPUT-3: what is no URL is refused with its reason") func refused() {
        #expect(throws: WebURLError.noScheme) { try WebOrigin(url: "clip") }
        #expect(throws: WebURLError.unsupportedScheme("ftp")) { try WebOrigin(url: "ftp://h/x") }
        #expect(throws: WebURLError.noHost) { try WebOrigin(url: "http:///x") }
        #expect(throws: WebURLError.illegalCharacter) { try WebOrigin(url: "http://h/a b") }
        #expect(throws: WebURLError.badPort("99999")) { try WebOrigin(url: "http://h:99999/") }
    }
    @Test("AUTH-8: a URL for logs has no password, no query") func redacted() {
        #expect(WebOrigin.redacted("https://bob:secret@h/p/v.mp4?sig=abc#x") == "https://h/p/v.mp4")
    }
}
