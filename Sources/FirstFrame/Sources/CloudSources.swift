import EventLoop
import FeedVocabulary
import HTTPTransport
public import ResourceLoading

/// Sources of cloud drives, in the style of each. The token is registered once for the service's origin:
/// `runtime.setCredentials(.bearer(token), for: origin)`, with ``Credential/oauth(_:expires:)`` for Yandex and
/// ``Credential/basic(user:password:)`` for other WebDAV servers.
///
/// The `endpoint` parameters name the services' own addresses by default; a company's gateway has others.
extension URLSource {
    /// A file of a WebDAV folder, Yandex Disk's too: each path component is percent-encoded here.
    ///
    /// - Parameters:
    ///   - folder: URL of the folder, such as `https://webdav.yandex.com/Music`.
    ///   - path: Below it, with `/` between names, in plain text.
    public static func webDAV(folder: String, path: String, cacheKey: String? = nil) throws(SourceError) -> URLSource {
        let base = folder.hasSuffix("/") ? String(folder.dropLast()) : folder
        let names = path.split(separator: "/").map { percentEncoded($0) }
        return try URLSource(url: ([base] + names).joined(separator: "/"), cacheKey: cacheKey)
    }

    /// A file of a Dropbox: the path goes in a header with a JSON argument.
    ///
    /// - Parameter path: Such as `/Music/a.mp3`, or `id:…`.
    public static func dropbox(
        path: String, endpoint: String = "https://content.dropboxapi.com", cacheKey: String? = nil
    ) throws(SourceError) -> URLSource {
        let url = endpoint + "/2/files/download"
        return try URLSource(
            url: url, cacheKey: cacheKey ?? CacheKey(digestOf: url, path).text,
            headers: ["Dropbox-API-Arg": "{\"path\":\(headerSafeJSON(path))}"])
    }

    /// A file of Google Drive (v3), which gives its bytes and not its description with `alt=media`.
    public static func googleDrive(
        fileID: String, endpoint: String = "https://www.googleapis.com", cacheKey: String? = nil
    ) throws(SourceError) -> URLSource {
        try URLSource(url: "\(endpoint)/drive/v3/files/\(percentEncoded(fileID))?alt=media", cacheKey: cacheKey)
    }

    /// A file of OneDrive: the service answers with a redirect to a pre-signed URL on another host, which does not get
    /// the token. Further ranges go there until it expires.
    public static func oneDrive(
        itemID: String, endpoint: String = "https://graph.microsoft.com/v1.0", cacheKey: String? = nil
    ) throws(SourceError) -> URLSource {
        try URLSource(url: "\(endpoint)/me/drive/items/\(percentEncoded(itemID))/content", cacheKey: cacheKey)
    }

    /// A URL with a signature in its query, as S3, Google Cloud Storage and their like make them: its expiry is read
    /// from it, and it is never asked with HEAD, which such a signature does not cover.
    ///
    /// - Parameter refresher: Gives a new one; without it an expired URL is an error.
    public static func preSigned(
        _ url: String, cacheKey: String? = nil, refresher: URLRefresher? = nil
    ) throws(SourceError) -> URLSource {
        try URLSource(urls: [MediaURL(url, expires: expiry(of: url))], cacheKey: cacheKey, refresher: refresher)
    }

    /// When a pre-signed URL stops working: `X-Amz-Date` plus `X-Amz-Expires`, the same of `X-Goog-…`, or `Expires`.
    static func expiry(of url: String) -> WallTime? {
        var fields: [String: String] = [:]
        guard let query = url.firstIndex(of: "?") else { return nil }
        for part in url[url.index(after: query)...].prefix(while: { $0 != "#" }).split(separator: "&") {
            let sides = part.split(separator: "=", maxSplits: 1)
            if sides.count == 2 { fields[sides[0].lowercased()] = String(sides[1]) }
        }
        if let seconds = fields["expires"].flatMap({ Int64($0) }) { return WallTime(secondsSince1970: seconds) }
        for prefix in ["x-amz-", "x-goog-"] {
            if let date = fields[prefix + "date"].flatMap(HTTPDate.parseBasic),
                let seconds = fields[prefix + "expires"].flatMap({ Int64($0) }), seconds >= 0
            {
                return date.advanced(by: .seconds(min(seconds, 1 << 40)))
            }
        }
        return nil
    }

    /// All but the unreserved characters of RFC 3986 §2.3 as `%XX` of their UTF-8 bytes.
    private static func percentEncoded(_ text: some StringProtocol) -> String {
        var encoded = ""
        for byte in text.utf8 {
            let scalar = Unicode.Scalar(byte)
            if scalar.isASCII,
                scalar.properties.isAlphabetic || ("0"..."9").contains(scalar) || "-._~".contains(Character(scalar))
            {
                encoded.unicodeScalars.append(scalar)
            } else {
                encoded += "%" + hexadecimal(UInt32(byte), digits: 2).uppercased()
            }
        }
        return encoded
    }

    /// A JSON string of ASCII only, since header values are (the service's own rule for this header).
    private static func headerSafeJSON(_ text: String) -> String {
        var json = "\""
        for unit in text.utf16 {
            switch unit {
            case UInt16(UInt8(ascii: "\"")), UInt16(UInt8(ascii: "\\")):
                json += "\\" + String(Unicode.Scalar(UInt8(unit)))
            case 0x20..<0x7f: json.unicodeScalars.append(Unicode.Scalar(UInt8(unit)))
            case _: json += "\\u" + hexadecimal(UInt32(unit), digits: 4)
            }
        }
        return json + "\""
    }

    private static func hexadecimal(_ value: UInt32, digits: Int) -> String {
        let text = String(value, radix: 16)
        return String(repeating: "0", count: max(0, digits - text.count)) + text
    }
}
