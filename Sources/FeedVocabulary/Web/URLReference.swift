/// A reference as documents have it, which means an absolute URL by where the document lies (RFC 3986 §5).
package enum URLReference {
    private struct Parts {
        var scheme, authority: Substring?
        var path: Substring
        var query: Substring?

        init(_ text: Substring) {
            var rest = text.prefix { $0 != "#" }
            if let colon = rest.firstIndex(of: ":"), let first = rest.first, first.isASCII, first.isLetter,
                rest[..<colon].allSatisfy({ $0.isASCII && ($0.isLetter || $0.isNumber || "+-.".contains($0)) })
            {
                scheme = rest[..<colon]
                rest = rest[rest.index(after: colon)...]
            }
            if let mark = rest.firstIndex(of: "?") {
                query = rest[rest.index(after: mark)...]
                rest = rest[..<mark]
            }
            if rest.hasPrefix("//") {
                rest = rest.dropFirst(2)
                let host = rest.prefix { $0 != "/" }
                authority = host
                rest = rest[host.endIndex...]
            }
            path = rest
        }
    }

    /// What `reference` means in a document at `base`, without a fragment; `nil` when `base` is no absolute URL.
    package static func resolve(_ reference: String, against base: String) -> String? {
        let (given, base) = (Parts(reference[...]), Parts(base[...]))
        guard let baseScheme = base.scheme else { return nil }
        var (authority, path, query) = (given.authority, String(given.path), given.query)
        if given.scheme == nil, authority == nil {
            authority = base.authority
            if path.isEmpty {
                path = String(base.path)
                query = query ?? base.query
            } else if !path.hasPrefix("/") {
                let folder = base.path.lastIndex(of: "/").map { base.path[...$0] }
                path = (folder ?? (base.authority == nil ? "" : "/")) + path
            }
        }
        return "\(given.scheme ?? baseScheme):" + (authority.map { "//\($0)" } ?? "") + withoutDots(path)
            + (query.map { "?\($0)" } ?? "")
    }

    /// The path that a relative reference means in a folder of this machine; `nil` when it means no path.
    ///
    /// - Parameter folder: Absolute, with a slash at its end.
    package static func path(_ reference: String, in folder: String) -> String? {
        let parts = Parts(reference[...])
        guard parts.scheme == nil, parts.authority == nil, !parts.path.isEmpty else { return nil }
        var bytes: [UInt8] = []
        var rest = parts.path.utf8[...]
        while let byte = rest.popFirst() {
            guard byte == UInt8(ascii: "%") else {
                bytes.append(byte)
                continue
            }
            guard rest.count >= 2, let value = UInt8(String(decoding: rest.prefix(2), as: UTF8.self), radix: 16) else {
                return nil
            }
            bytes.append(value)
            rest = rest.dropFirst(2)
        }
        guard !bytes.contains(0) else { return nil }
        let path = String(decoding: bytes, as: UTF8.self)
        return withoutDots(path.hasPrefix("/") ? path : folder + path)
    }

    /// RFC 3986 §5.2.4.
    private static func withoutDots(_ path: String) -> String {
        var kept: [Substring] = []
        let segments = path.split(separator: "/", omittingEmptySubsequences: false)
        for (index, segment) in segments.enumerated() {
            let isLast = index == segments.count - 1
            switch segment {
            case ".": if isLast { kept.append("") }
            case "..":
                if kept.count > 1 || kept.first?.isEmpty == false { kept.removeLast() }
                if isLast { kept.append("") }
            default: kept.append(segment)
            }
        }
        return kept.joined(separator: "/")
    }
}
