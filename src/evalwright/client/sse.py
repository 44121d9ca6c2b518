"""Server-sent events: bytes as they come, to frames."""

import re

import msgspec

MAX_FRAME_BYTES = 64 * 1024 * 1024
_LINE_END = re.compile(rb"\r\n|\n|\r")
_BYTE_ORDER_MARK = b"\xef\xbb\xbf"


class FrameTooLong(ValueError):
    """A frame without an end."""


class Frame(msgspec.Struct, frozen=True):
    """One event: its name, its data, and its own id where it has one."""

    name: str
    data: bytes
    id: str | None = None


class FrameParser:
    """Takes a stream apart, in whatever pieces it comes."""

    def __init__(self) -> None:
        self._is_first_line = True
        self._after_return = False  # a line feed that comes next belongs to it
        self._line: list[bytes] = []  # the pieces of a line that has not ended
        self._size = 0
        self._clear()

    def feed(self, chunk: bytes) -> list[Frame]:
        """The frames that this piece completes."""
        if not chunk:
            return []
        rest = chunk[1:] if self._after_return and chunk.startswith(b"\n") else chunk
        self._after_return = chunk.endswith(b"\r")
        self._size += len(rest)
        *ended, open_line = _LINE_END.split(rest)
        frames = []
        for piece in ended:
            frame = self._add_line(b"".join([*self._line, piece]))
            self._line.clear()
            if frame is not None:
                frames.append(frame)
        self._line.append(open_line)
        if frames:
            self._size = len(open_line)
        if self._size > MAX_FRAME_BYTES:
            raise FrameTooLong(f"an event is longer than {MAX_FRAME_BYTES} bytes")
        return frames

    def _clear(self) -> None:
        self._name = b""
        self._data: list[bytes] = []
        self._id: str | None = None

    def _add_line(self, line: bytes) -> Frame | None:
        if self._is_first_line:
            self._is_first_line = False
            line = line.removeprefix(_BYTE_ORDER_MARK)
        if not line:
            # A blank line ends a frame; a frame without data is dropped.
            frame = None
            if self._data:
                name = self._name.decode("utf-8", "replace") or "message"
                frame = Frame(name, b"\n".join(self._data), self._id)
            self._clear()
            return frame
        field, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        match field:
            case b"data":
                self._data.append(value)
            case b"event":
                self._name = value
            case b"id" if b"\0" not in value:
                self._id = value.decode("utf-8", "replace")
        return None
