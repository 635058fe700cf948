// A host imports `FirstFrame` alone and finds in it the public words of the rooms below.
@_exported public import EventLoop
@_exported public import FeedStrategy
@_exported public import FeedVocabulary
@_exported public import Playback
@_exported public import ResourceLoading
