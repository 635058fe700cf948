import EventLoop
import FeedVocabulary
import HTTPTransport

/// Decides where the body of an answer belongs, by the answer's own words and not by the request's.
struct AnswerJudge {
    enum Verdict: Hashable {
        /// The body begins at `offset`; `end` is where it ends, if the answer says so.
        case body(at: Int64, end: Int64?)
        /// The offset asked for is at or past the end.
        case endOfResource
        /// The resource is another one than what `known` describes.
        case changed
    }
    let requested: ByteRange
    let known: ContentInformation?
    /// The end of the last byte that is there: a file that ends before it is another one.
    var storedEnd: Int64 = 0
    /// Whether pages of text are refused.
    var expectsMedia = true
    /// What the source says of the whole file.
    var expectedLength: Int64?
    let now: WallTime

    /// - Throws: ``FetchFailure`` when the answer carries no usable media.
    func judge(_ head: HTTPResponseHead) throws(FetchFailure) -> (Verdict, ContentInformation) {
        let url = WebOrigin.redacted(head.url)
        switch head.status {
        case 200: return try judgeWhole(head, url)
        case 206: return try judgePart(head, url)
        case 416: return try judgeUnsatisfiable(head, url)
        default: throw FetchFailure(head, now: now)
        }
    }

    /// 200: the whole resource from byte 0, whatever was asked (RFC 9110 §14.2).
    private func judgeWhole(_ head: HTTPResponseHead, _ url: String) throws(FetchFailure) -> (
        Verdict, ContentInformation
    ) {
        try refuseOtherThanMedia(head, url)
        let information = ContentInformation(
            length: head.contentLength, contentType: head.headers["Content-Type"], supportsRanges: false,
            validator: strongValidator(head))
        if information.length == 0 { throw FetchFailure(.empty(url: url), isRetryable: false) }
        try refuseOtherLength(information, url)
        if contradicts(information) { return (.changed, information) }
        return (.body(at: 0, end: information.length), merged(information))
    }

    /// 206: the bytes that Content-Range names; Content-Length is only the size of the message (RFC 9110 §15.3.7).
    private func judgePart(_ head: HTTPResponseHead, _ url: String) throws(FetchFailure) -> (
        Verdict, ContentInformation
    ) {
        try refuseOtherThanMedia(head, url)
        guard let contentRange = head.contentRange, let range = contentRange.range else {
            throw unusable("a partial answer without a valid Content-Range", url)
        }
        if let length = head.contentLength, length != range.length {
            throw unusable("a partial answer whose length contradicts its Content-Range", url)
        }
        let information = ContentInformation(
            length: contentRange.total, contentType: head.headers["Content-Type"], supportsRanges: true,
            validator: strongValidator(head))
        try refuseOtherLength(information, url)
        if contradicts(information) { return (.changed, information) }
        guard range.contains(requested.lowerBound) else {
            throw unusable("a partial answer that doesn't cover the byte asked for", url)
        }
        return (.body(at: range.lowerBound, end: range.upperBound), merged(information))
    }

    /// 416: nothing at that offset; `bytes */N` tells the length (RFC 9110 §15.5.17).
    private func judgeUnsatisfiable(
        _ head: HTTPResponseHead, _ url: String
    ) throws(FetchFailure) -> (Verdict, ContentInformation) {
        guard let total = head.contentRange?.total else {
            if let length = known?.length, requested.lowerBound >= length, let known { return (.endOfResource, known) }
            throw FetchFailure(head, now: now)
        }
        if total == 0 { throw FetchFailure(.empty(url: url), isRetryable: false) }
        let information = ContentInformation(
            length: total, contentType: known?.contentType, supportsRanges: true, validator: known?.validator)
        if let length = known?.length, length != total { return (.changed, information) }
        if total < storedEnd { return (.changed, information) }
        guard requested.lowerBound >= total else { throw FetchFailure(head, now: now) }
        return (.endOfResource, information)
    }

    /// A login or error page sent with 200 must neither be stored nor count as a new version of the file.
    private func refuseOtherThanMedia(_ head: HTTPResponseHead, _ url: String) throws(FetchFailure) {
        if let coding = head.headers["Content-Encoding"], coding.lowercased() != "identity" {
            throw unusable("the answer is compressed (\(coding)) although that was not asked for", url)
        }
        if head.headers["Content-Type"]?.lowercased().hasPrefix("multipart/byteranges") == true {
            throw unusable("a multipart answer that has no part of the range", url)
        }
        guard expectsMedia, let type = head.headers["Content-Type"].map(MediaType.init) else { return }
        if type.isPage || (type.family == "text" && known?.contentType.map { MediaType($0).isMedia } == true) {
            throw unusable("unexpected content: the answer is \(type.name), not media", url)
        }
    }

    private func refuseOtherLength(_ information: ContentInformation, _ url: String) throws(FetchFailure) {
        guard let expectedLength, let length = information.length, length != expectedLength else { return }
        let reason = "the file has \(length) bytes, the source says \(expectedLength)"
        throw FetchFailure(.unusableAnswer(reason: reason, url: url), isRetryable: false)
    }

    private func unusable(_ reason: String, _ url: String) -> FetchFailure {
        FetchFailure(.unusableAnswer(reason: reason, url: url), isRetryable: true)
    }

    /// A weak ETag says "equivalent", not "the same bytes", and can't join ranges (RFC 9110 §8.8.1). A date can when the
    /// answer was made at least a second after it (§8.8.2.2), and serves where there is no ETag at all (§13.1.5).
    private func strongValidator(_ head: HTTPResponseHead) -> String? {
        if let tag = head.headers["ETag"], !tag.isEmpty { return tag.hasPrefix("W/") ? nil : tag }
        guard let modified = head.headers["Last-Modified"], let moment = HTTPDate.parse(modified),
            let made = head.headers["Date"].flatMap(HTTPDate.parse), moment < made
        else { return nil }
        return modified
    }

    /// A date and a tag say nothing of each other: a server behind a balancer may send one or the other.
    private static func isTag(_ validator: String) -> Bool { validator.hasSuffix("\"") }

    private func contradicts(_ information: ContentInformation) -> Bool {
        if let new = information.length, new < storedEnd { return true }
        guard let known else { return false }
        if let old = known.length, let new = information.length, old != new { return true }
        if let old = known.validator, let new = information.validator, Self.isTag(old) == Self.isTag(new) {
            return old != new
        }
        // Nothing says that the bytes that are there are of this version, not even a length.
        return storedEnd > 0 && known.validator == nil && information.validator != nil && information.length == nil
    }

    private func merged(_ information: ContentInformation) -> ContentInformation {
        var merged = information
        merged.length = information.length ?? known?.length
        merged.validator = information.validator ?? known?.validator
        merged.contentType = information.contentType ?? known?.contentType
        return merged
    }
}

/// A MIME type without its parameters (RFC 9110 §8.3.1).
struct MediaType: Hashable {
    /// Lower case, such as `video/mp4`.
    let name: String
    var family: Substring { name.prefix { $0 != "/" } }
    var isMedia: Bool { family == "video" || family == "audio" }
    /// What login and error pages are made of, and media never is.
    var isPage: Bool { ["text/html", "application/xhtml+xml", "application/json"].contains(name) }

    init(_ contentType: String) {
        name = contentType.prefix { $0 != ";" }.lowercased().filter { !$0.isWhitespace }
    }
}
