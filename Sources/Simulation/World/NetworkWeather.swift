import EventLoop

/// Something that a server or the network does wrong to one request.
package enum NetworkFault: String, Hashable, Sendable, CaseIterable {
    // Before an answer.
    case refused, unresolved, connectTimeout, redirectLoop
    // Answers without media.
    case notFound, gone, forbidden, unauthorized, serverError, unavailable, tooMany, tooManyForLong, noContent
    case loginPage, emptyFile, unsatisfiable
    // Answers with media in another form than was asked for.
    case wholeInstead, wholeWithoutLength, earlierRange, shorterRange, otherRange, badContentRange, wrongTotal
    case withoutTotal, wrongLength, encoded, multipart, weakValidator, withoutValidator
    // Trouble in the body.
    case breaks, resets, stalls
    // The file is another one from now on.
    case replaced
}

/// How often faults come, and which: each seed has its own.
package struct NetworkWeather: Sendable {
    /// Of requests, 0 to 1.
    package var faultRate = 0.0
    package var faults: [NetworkFault] = []
    /// Added to the round trip of a request, at most.
    package var jitter = Duration.zero
    /// Pieces, of 1, that are lost and sent again after a pause.
    package var lossRate = 0.0
    package init() {}
}
