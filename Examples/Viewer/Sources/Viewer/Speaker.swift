import CSDL2
import FirstFrame

/// Plays sound on SDL's default device, and tells what is heard, so that the pictures follow.
actor Speaker: AudioSink {
    private var device: SDL_AudioDeviceID = 0
    private var format = (rate: 0, channels: 0)
    private var isPaused = false
    /// Of the device's own buffer, which is heard after it was taken from the queue.
    private var latency = Duration.zero

    func play(_ buffer: AudioBuffer) async -> Duration? {
        guard open(buffer) else { return nil }
        buffer.samples.withUnsafeBytes { _ = SDL_QueueAudio(device, $0.baseAddress, UInt32($0.count)) }
        let frames = Int(SDL_GetQueuedAudioSize(device)) / (4 * buffer.channelCount)
        let queued = Duration.seconds(Double(frames) / Double(buffer.sampleRate)) + latency
        return buffer.presentationTime + buffer.duration - queued * buffer.rate
    }

    private func open(_ buffer: AudioBuffer) -> Bool {
        if device != 0, format == (buffer.sampleRate, buffer.channelCount) { return true }
        close()
        var wanted = SDL_AudioSpec()
        wanted.freq = Int32(buffer.sampleRate)
        wanted.format = ff_audio_f32
        wanted.channels = UInt8(clamping: buffer.channelCount)
        wanted.samples = 1024
        var got = SDL_AudioSpec()
        device = SDL_OpenAudioDevice(nil, 0, &wanted, &got, 0)
        guard device != 0 else { return false }
        format = (buffer.sampleRate, buffer.channelCount)
        latency = .seconds(Double(got.samples) / Double(got.freq))
        SDL_PauseAudioDevice(device, isPaused ? 1 : 0)
        return true
    }

    func setPaused(_ isPaused: Bool) {
        self.isPaused = isPaused
        if device != 0 { SDL_PauseAudioDevice(device, isPaused ? 1 : 0) }
    }

    /// Forgets what is queued: another clip, or another place.
    func flush() { if device != 0 { SDL_ClearQueuedAudio(device) } }

    func close() {
        if device != 0 { SDL_CloseAudioDevice(device) }
        device = 0
    }
}
