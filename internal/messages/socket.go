package messages

import (
	"net"
	"sync"
	"time"
)

const (
	// readAhead is how many bytes are read from the broker before the messages in
	// them are looked at. amqp091 reads as fast as it can, and keeps all of it.
	readAhead = 4 << 20
	// heartbeatFrame is the size of a heartbeat, in bytes.
	heartbeatFrame = 8
)

// socket is the connection to the broker. While it is held back, it reads only
// what it was granted: RabbitMQ waits with the rest, so that neither the number
// nor the size of the messages decides how much memory they take here.
type socket struct {
	net.Conn

	mu       sync.Mutex
	changed  *sync.Cond
	held     bool
	granted  int
	closed   bool
	patience time.Duration
	// sent is when something other than a heartbeat was last written.
	sent time.Time
}

func newSocket(c net.Conn) *socket {
	s := &socket{Conn: c}
	s.changed = sync.NewCond(&s.mu)
	return s
}

// grant lets readAhead bytes pass, and no more.
func (s *socket) grant() { s.set(true, readAhead) }

// release lets everything pass.
func (s *socket) release() { s.set(false, 0) }

func (s *socket) set(held bool, granted int) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.held, s.granted = held, granted
	s.changed.Broadcast()
}

func (s *socket) Read(data []byte) (int, error) {
	most, waited := s.await(len(data))
	if waited > 0 {
		// The deadline was meant for the broker's silence, not for ours.
		if err := s.Conn.SetReadDeadline(time.Now().Add(waited)); err != nil {
			return 0, err
		}
	}
	n, err := s.Conn.Read(data[:most])
	s.mu.Lock()
	defer s.mu.Unlock()
	s.granted -= n
	return n, err
}

// await returns how many bytes may be read, and, if it waited for that, how
// long the broker may be silent from now on.
func (s *socket) await(wanted int) (most int, waited time.Duration) {
	s.mu.Lock()
	defer s.mu.Unlock()
	for s.held && s.granted <= 0 && !s.closed {
		waited = s.patience
		s.changed.Wait()
	}
	if s.held && !s.closed {
		wanted = min(wanted, s.granted)
	}
	return wanted, waited
}

func (s *socket) Write(data []byte) (int, error) {
	n, err := s.Conn.Write(data)
	if n > heartbeatFrame {
		s.mu.Lock()
		defer s.mu.Unlock()
		s.sent = time.Now()
	}
	return n, err
}

// lastSent is when something other than a heartbeat was last written.
func (s *socket) lastSent() time.Time {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.sent
}

// SetReadDeadline is how amqp091 expects the broker's next heartbeat.
func (s *socket) SetReadDeadline(t time.Time) error {
	s.mu.Lock()
	s.patience = 0
	if !t.IsZero() {
		s.patience = time.Until(t)
	}
	s.mu.Unlock()
	return s.Conn.SetReadDeadline(t)
}

func (s *socket) Close() error {
	s.mu.Lock()
	s.closed = true
	s.changed.Broadcast()
	s.mu.Unlock()
	return s.Conn.Close()
}
