import Foundation

/// Another program, run to its end.
enum ChildCommand {
    enum Stream {
        case output
        case errors
    }

    /// - Parameters:
    ///   - program: A path, or a name that is looked up as a shell does.
    ///   - stream: What is read of it; the other one goes where ours goes.
    static func run(
        _ program: String, _ arguments: [String], reading stream: Stream
    ) throws -> (status: Int32, text: String) {
        let process = Process()
        process.executableURL = URL(filePath: "/usr/bin/env")
        process.arguments = [program] + arguments
        let pipe = Pipe()
        switch stream {
        case .output: process.standardOutput = pipe
        case .errors: process.standardError = pipe
        }
        try process.run()
        let text = String(decoding: pipe.fileHandleForReading.readDataToEndOfFile(), as: UTF8.self)
        process.waitUntilExit()
        return (process.terminationStatus, text)
    }
}
