/// Files as no encoder writes them: random bytes changed, parts cut out, doubled or cut off, most of it in the head, where
/// sizes and counts are.
package enum MediaMutation {
    package static func mutate(_ file: [UInt8], _ random: inout some RandomNumberGenerator) -> [UInt8] {
        var bytes = file
        for _ in 0..<Int.random(in: 1...20, using: &random) {
            let reach = Bool.random(using: &random) ? min(bytes.count, 4_096) : bytes.count
            guard reach > 16 else { break }
            let place = Int.random(in: 0..<reach, using: &random)
            switch Int.random(in: 0..<8, using: &random) {
            case 0: bytes.removeSubrange(place..<min(bytes.count, place + Int.random(in: 1...64, using: &random)))
            case 1: bytes.insert(contentsOf: Array(bytes[place..<min(bytes.count, place + 64)]), at: place)
            case 2: bytes.removeLast(min(bytes.count - 1, Int.random(in: 1...bytes.count, using: &random) / 4))
            case 3: for index in place..<min(bytes.count, place + 4) { bytes[index] = 0xFF }
            case _: bytes[place] = UInt8.random(in: 0...255, using: &random)
            }
        }
        return bytes
    }
}
