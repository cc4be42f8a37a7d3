package messages

import (
	"bytes"
	"encoding/binary"
	"errors"
	"io"
	"net"
	"strings"
	"testing"
	"testing/iotest"

	amqp "github.com/rabbitmq/amqp091-go"

	"github.com/retrychain/terraform-provider-rabbitmq/internal/deadletter"
)

// nested is a table of so many tables, one in the other.
func nested(depth int) amqp.Table {
	table := amqp.Table{"deepest": int32(1)}
	for range depth {
		table = amqp.Table{"next": []any{table}}
	}
	return table
}

// stub is a connection that says what it was given.
type stub struct {
	net.Conn

	from io.Reader
}

func (s stub) Read(data []byte) (int, error) { return s.from.Read(data) }

// Whatever comes that has no unreadable headers comes through as it is, in pieces
// of any size.
func TestLegibleLetsThrough(t *testing.T) {
	for name, text := range map[string]string{
		"no frames":           "HTTP/1.1 400 Bad Request\r\n\r\n",
		"another version":     "AMQP\x00\x00\x09\x01",
		"a few bytes":         "\x01\x00",
		"heartbeats":          strings.Repeat("\x08\x00\x00\x00\x00\x00\x00\xce", 3),
		"method and body":     "\x01\x00\x01\x00\x00\x00\x02ab\xce\x03\x00\x01\x00\x00\x00\x03abc\xce",
		"no headers":          "\x02\x00\x01\x00\x00\x00\x0e" + strings.Repeat("\x00", 14) + "\xce",
		"a table of one bool": "\x02\x00\x01\x00\x00\x00\x16" + strings.Repeat("\x00", 12) + "\x20\x00\x00\x00\x00\x04\x01at\x01\xce",
		"headers cut short":   "\x02\x00\x01\x00\x00\x00\x10" + strings.Repeat("\x00", 12) + "\x20\x00\x00\x00\xce",
	} {
		for how, slow := range map[string]func(io.Reader) io.Reader{"whole": func(r io.Reader) io.Reader { return r }, "bytes": iotest.OneByteReader} {
			l := newLegible(stub{from: slow(strings.NewReader(text))})
			got, err := io.ReadAll(l)
			if (err != nil && !errors.Is(err, io.ErrUnexpectedEOF)) || !strings.HasPrefix(text, string(got)) || (err == nil && len(got) < len(text)) {
				t.Errorf("%s, %s: %q %v", name, how, got, err)
			}
		}
	}
}

// Headers that amqp091 cannot read are replaced, and what follows them stays.
func TestReadable(t *testing.T) {
	table := func(inside string) string {
		return string(binary.BigEndian.AppendUint32(nil, uint32(len(inside)))) + inside
	}
	deep := table("\x01at\x01")
	for range maxDepth {
		deep = table("\x01aF" + deep)
	}
	head := func(flags string) string { return strings.Repeat("\x00", 12) + flags }
	const marker = "\x00\x00\x00\x19\x16" + deadletter.Illegible + "t\x01"
	for name, c := range map[string]struct{ from, want string }{
		"a type that there is not":            {head("\x20\x00") + table("\x01a?"), head("\x20\x00") + marker},
		"properties before and after it":      {head("\xf0\x00") + "\x01a\x01b" + table("\x01a?") + "\x02", head("\xf0\x00") + "\x01a\x01b" + marker + "\x02"},
		"readable":                            {head("\x20\x00") + table("\x01at\x01"), head("\x20\x00") + table("\x01at\x01")},
		"nested, but not too deep":            {head("\x20\x00") + deep, head("\x20\x00") + deep},
		"nested too deep":                     {head("\x20\x00") + table("\x01aF"+deep), head("\x20\x00") + marker},
		"a length that is more than there is": {head("\x20\x00") + "\x00\x00\x00\x09", head("\x20\x00") + "\x00\x00\x00\x09"},
	} {
		if got := readable([]byte(c.from)); !bytes.Equal(got, []byte(c.want)) {
			t.Errorf("%s: %q, expected %q", name, got, c.want)
		}
	}
}

// One message with headers that cannot be read stays and is told, and everything
// else of the queue moves.
func TestLiveIllegible(t *testing.T) {
	eachQueueType(t, func(t *testing.T, b bench, kind string) {
		s := b.open(t)
		queue, work := b.queue(t, s, kind), b.destination(t, s)
		fill(t, s, queue, 0, 3)
		publishTo(t, s, queue, amqp.Publishing{MessageId: "deep", Headers: nested(20)})
		fill(t, s, queue, 3, 3)
		if got := look(t, s, queue, 0, nil); len(got) != 7 {
			t.Fatalf("the pass showed %v", got)
		}
		outcome, err := s.Redrive(t.Context(), queue, RedriveOptions{Route: to(work, everyone)})
		if err != nil || outcome.Done != 6 || outcome.RefusedCount != 1 || outcome.Refused[0].ID != "deep" || outcome.Refused[0].Position != 4 {
			t.Errorf("%+v %v", outcome, err)
		}
		if got := b.content(t, queue, 1); got[0] != "deep" {
			t.Errorf("left %v", got)
		}
		outcome, err = s.Discard(t.Context(), queue, RedriveOptions{Filter: deadletter.Filter{MessageIDs: []string{"deep"}}})
		if err != nil || outcome.Done != 1 {
			t.Errorf("%+v %v", outcome, err)
		}
	})
}
