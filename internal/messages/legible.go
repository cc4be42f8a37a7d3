package messages

import (
	"bufio"
	"encoding/binary"
	"io"
	"net"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/deadletter"
)

// Types and sizes of AMQP 0-9-1 frames, in bytes.
const (
	frameMethod, frameContent, frameBody, frameBeat = 1, 2, 3, 8

	frameHead, frameEnd = 7, 1
	// contentHead is what a content frame has before its properties: class, weight,
	// size of the body and flags.
	contentHead = 14
	// maxContent is more than any broker lets a frame have by default.
	maxContent = 1 << 20
)

// Flags of a content frame.
const (
	hasContentType     = 1 << 15
	hasContentEncoding = 1 << 14
	hasHeaders         = 1 << 13
)

// What amqp091 reads at most. It ends the connection over anything more, and
// with it every look into a queue that has such a message.
const (
	maxDepth    = 32
	maxElements = 8192
)

// legible is a connection on which amqp091 can read every message: headers that
// it cannot read are replaced by [deadletter.Illegible].
type legible struct {
	net.Conn

	from *bufio.Reader
	// rewritten comes first, and then so many bytes as they are.
	rewritten []byte
	through   int
	// foreign says that what comes are no frames.
	foreign bool
}

func newLegible(c net.Conn) *legible { return &legible{Conn: c, from: bufio.NewReaderSize(c, 16<<10)} }

func (l *legible) Read(data []byte) (int, error) {
	if len(l.rewritten) == 0 && l.through == 0 && !l.foreign {
		if err := l.frame(); err != nil {
			return 0, err
		}
	}
	switch {
	case len(l.rewritten) > 0:
		n := copy(data, l.rewritten)
		l.rewritten = l.rewritten[n:]
		return n, nil
	case l.foreign:
		return l.from.Read(data)
	}
	n, err := l.from.Read(data[:min(len(data), l.through)])
	l.through -= n
	return n, err
}

// frame reads the head of the next frame, and the whole one if it has headers.
func (l *legible) frame() error {
	head, err := l.from.Peek(frameHead)
	switch {
	case len(head) == 0:
		return err
	case len(head) < frameHead, !isFrame(head[0]):
		l.foreign = true
		return nil
	}
	size := int(binary.BigEndian.Uint32(head[3:]))
	l.through = frameHead + size + frameEnd
	if head[0] != frameContent || size > maxContent {
		return nil
	}
	whole := make([]byte, l.through)
	l.through = 0
	if _, err := io.ReadFull(l.from, whole); err != nil {
		return err
	}
	payload := readable(whole[frameHead : frameHead+size])
	l.rewritten = binary.BigEndian.AppendUint32(whole[:3:3], uint32(len(payload))) //nolint:gosec // maxContent at most
	l.rewritten = append(append(l.rewritten, payload...), whole[frameHead+size])
	return nil
}

func isFrame(kind byte) bool {
	return kind == frameMethod || kind == frameContent || kind == frameBody || kind == frameBeat
}

// readable returns the payload of a content frame with headers that amqp091 can
// read.
func readable(payload []byte) []byte {
	if len(payload) < contentHead {
		return payload
	}
	flags, at := binary.BigEndian.Uint16(payload[contentHead-2:]), contentHead
	if flags&hasHeaders == 0 {
		return payload
	}
	for _, property := range []uint16{hasContentType, hasContentEncoding} {
		if flags&property != 0 && at < len(payload) {
			at += 1 + int(payload[at])
		}
	}
	w := walker{left: payload[min(at, len(payload)):], fits: true}
	w.table(0)
	if w.fits {
		return payload
	}
	w = walker{left: payload[min(at, len(payload)):], fits: true}
	w.long()
	if !w.fits {
		return payload // it is none: amqp091 says so
	}
	table := append([]byte{byte(len(deadletter.Illegible))}, deadletter.Illegible+"t\x01"...)
	fixed := binary.BigEndian.AppendUint32(payload[:at:at], uint32(len(table))) //nolint:gosec // a few bytes
	return append(append(fixed, table...), w.left...)
}

// walker goes over fields as amqp091 reads them.
type walker struct {
	left []byte
	fits bool
}

// take returns the next n bytes, fewer and nothing more where there are not so many.
func (w *walker) take(n int) []byte {
	if n < 0 || n > len(w.left) {
		w.fits, w.left = false, nil
		return nil
	}
	taken := w.left[:n]
	w.left = w.left[n:]
	return taken
}

// long takes what begins with its length.
func (w *walker) long() []byte {
	length := w.take(4)
	if length == nil {
		return nil
	}
	return w.take(int(binary.BigEndian.Uint32(length)))
}

func (w *walker) table(depth int) { w.container(depth, true) }

// container goes over the entries of a table, or of an array, whose entries have
// no names.
func (w *walker) container(depth int, named bool) {
	inner := walker{left: w.long(), fits: w.fits && depth <= maxDepth}
	for n := 0; inner.fits && len(inner.left) > 0; n++ {
		if named {
			inner.take(int(inner.left[0]) + 1)
		}
		if n >= maxElements {
			inner.fits = false
		}
		inner.field(depth)
	}
	w.fits = w.fits && inner.fits
}

// fieldSizes are the sizes of values by type, in bytes.
var fieldSizes = map[byte]int{
	't': 1, 'b': 1, 'B': 1, 's': 2, 'u': 2, 'I': 4, 'i': 4, 'l': 8, 'f': 4, 'd': 8, 'D': 5, 'T': 8, 'V': 0,
}

func (w *walker) field(depth int) {
	kind := w.take(1)
	if kind == nil {
		return
	}
	size, plain := fieldSizes[kind[0]]
	switch {
	case plain:
		w.take(size)
	case kind[0] == 'S', kind[0] == 'x':
		w.long()
	case kind[0] == 'F':
		w.container(depth+1, true)
	case kind[0] == 'A':
		w.container(depth+1, false)
	default:
		w.fits = false
	}
}
