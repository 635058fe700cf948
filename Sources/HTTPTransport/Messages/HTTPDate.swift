package import EventLoop

/// A date as HTTP writes it (RFC 9110 §5.6.7): the preferred form, and the two obsolete ones that must be understood.
package enum HTTPDate {
    private static let months = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]

    /// Reads `Sun, 06 Nov 1994 08:49:37 GMT`, `Sunday, 06-Nov-94 08:49:37 GMT` or `Sun Nov  6 08:49:37 1994`.
    package static func parse(_ text: String) -> WallTime? {
        let words = text.split { $0 == " " || $0 == "," || $0 == "-" }.map(String.init)
        // Day name first, then either "06 Nov 1994 time GMT" or "Nov 6 time 1994".
        switch words.count {
        case 6:
            guard words[5] == "GMT" else { return nil }
            return moment(day: words[1], month: words[2], year: words[3], time: words[4])
        case 5: return moment(day: words[2], month: words[1], year: words[4], time: words[3])
        case _: return nil
        }
    }

    /// Reads the basic form of ISO 8601 that signatures use: `20130524T000000Z`.
    package static func parseBasic(_ text: String) -> WallTime? {
        let characters = Array(text)
        guard characters.count == 16, characters[8] == "T", characters[15] == "Z",
            let month = Int(String(characters[4..<6])), (1...12).contains(month)
        else { return nil }
        let part = { (range: Range<Int>) in String(characters[range]) }
        return moment(
            day: part(6..<8), month: months[month - 1], year: part(0..<4),
            time: [part(9..<11), part(11..<13), part(13..<15)].joined(separator: ":"))
    }

    private static func moment(day: String, month: String, year: String, time: String) -> WallTime? {
        let clock = time.split(separator: ":", omittingEmptySubsequences: false).map { ContentRange.number($0) }
        guard let day = ContentRange.number(day), (1...31).contains(day), var year = ContentRange.number(year),
            let month = months.firstIndex(of: month.lowercased()), clock.count == 3, let hour = clock[0],
            let minute = clock[1], let second = clock[2], hour < 24, minute < 60, second <= 60, year < 10_000
        else { return nil }
        // RFC 850 has two digits; the century is the one that is less than fifty years ahead, and this is 20xx.
        if year < 100 { year += year < 70 ? 2000 : 1900 }
        let days = daysSince1970(year: year, month: Int64(month) + 1, day: day)
        return WallTime(secondsSince1970: days * 86_400 + hour * 3600 + minute * 60 + second)
    }

    /// Gregorian calendar, counted in years that begin in March so that the leap day is the last.
    private static func daysSince1970(year: Int64, month: Int64, day: Int64) -> Int64 {
        let year = month <= 2 ? year - 1 : year
        let era = (year >= 0 ? year : year - 399) / 400
        let yearOfEra = year - era * 400
        let dayOfYear = (153 * (month + (month > 2 ? -3 : 9)) + 2) / 5 + day - 1
        let dayOfEra = yearOfEra * 365 + yearOfEra / 4 - yearOfEra / 100 + dayOfYear
        return era * 146_097 + dayOfEra - 719_468
    }
}

/// The `Retry-After` of a 429, 503 or 3xx answer (RFC 9110 §10.2.3).
package enum RetryAfter {
    /// How long to wait from `now`; a date in the past, or what is no valid value, is no wait.
    ///
    /// - Parameter serverTime: The answer's `Date`. A date to wait for is compared with the server's own clock, which
    ///   wrote it, when that is known.
    package static func delay(_ text: String, serverTime: WallTime?, now: WallTime) -> Duration? {
        if let seconds = ContentRange.number(text) { return .seconds(min(seconds, 1 << 40)) }
        guard let date = HTTPDate.parse(text) else { return nil }
        return max(.zero, (serverTime ?? now).duration(to: date))
    }
}
