import FeedVocabulary
import Testing

@Suite("References between documents") struct URLReferenceTests {
    /// RFC 3986 §5.4, but for fragments, which are left out.
    @Test(
        "a reference means what RFC 3986 says",
        arguments: [
            ("g:h", "g:h"), ("g", "http://a/b/c/g"), ("./g", "http://a/b/c/g"), ("g/", "http://a/b/c/g/"),
            ("/g", "http://a/g"), ("//g", "http://g"), ("?y", "http://a/b/c/d;p?y"), ("g?y", "http://a/b/c/g?y"),
            ("#s", "http://a/b/c/d;p?q"), ("g#s", "http://a/b/c/g"), (";x", "http://a/b/c/;x"),
            ("", "http://a/b/c/d;p?q"),
            (".", "http://a/b/c/"), ("./", "http://a/b/c/"), ("..", "http://a/b/"), ("../", "http://a/b/"),
            ("../g", "http://a/b/g"), ("../..", "http://a/"), ("../../g", "http://a/g"), ("../../../g", "http://a/g"),
            ("/./g", "http://a/g"), ("/../g", "http://a/g"), ("g.", "http://a/b/c/g."), ("..g", "http://a/b/c/..g"),
            ("./../g", "http://a/b/g"), ("./g/.", "http://a/b/c/g/"), ("g/./h", "http://a/b/c/g/h"),
            ("g/../h", "http://a/b/c/h"), ("g;x=1/../y", "http://a/b/c/y"), ("g?y/../x", "http://a/b/c/g?y/../x"),
        ])
    func resolved(reference: String, url: String) {
        #expect(URLReference.resolve(reference, against: "http://a/b/c/d;p?q") == url)
    }

    @Test("without a path the host is the folder, and without a scheme there is no base")
    func bases() {
        #expect(URLReference.resolve("g", against: "http://a") == "http://a/g")
        #expect(URLReference.resolve("g", against: "a/b") == nil)
    }

    @Test("a reference in a folder of this machine is a path, whatever is written in it")
    func paths() {
        #expect(URLReference.path("a%20b/./c.ts?x#y", in: "/x y/") == "/x y/a b/c.ts")
        #expect(URLReference.path("../c.ts", in: "/x/y/") == "/x/c.ts")
        #expect(URLReference.path("%2e%2e/c.ts", in: "/x/y/") == "/x/c.ts")
        #expect(URLReference.path("/etc/passwd", in: "/x/") == "/etc/passwd")
        for bad in ["file:///etc/passwd", "//host/x", "a%00b", "a%4", "", "#x"] {
            #expect(URLReference.path(bad, in: "/x/") == nil, "\(bad)")
        }
    }
}
