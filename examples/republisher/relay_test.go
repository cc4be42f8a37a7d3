package main

import (
	"io"
	"net"
	"sync"
	"testing"
)

// relay passes TCP connections on to a broker and can cut them.
type relay struct {
	listener net.Listener
	target   string

	mu    sync.Mutex
	conns []net.Conn
}

// newRelay starts a relay to an address, which ends with the test.
func newRelay(t *testing.T, target string) *relay {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	r := &relay{listener: listener, target: target}
	t.Cleanup(func() {
		listener.Close()
		r.cut()
	})
	go r.accept()
	return r
}

func (r *relay) accept() {
	for {
		client, err := r.listener.Accept()
		if err != nil {
			return
		}
		broker, err := net.Dial("tcp", r.target)
		if err != nil {
			client.Close()
			continue
		}
		r.mu.Lock()
		r.conns = append(r.conns, client, broker)
		r.mu.Unlock()
		go pass(broker, client)
		go pass(client, broker)
	}
}

// pass copies until either side ends, and ends both.
func pass(to, from net.Conn) {
	_, _ = io.Copy(to, from)
	to.Close()
	from.Close()
}

// cut ends every connection without a word.
func (r *relay) cut() {
	r.mu.Lock()
	defer r.mu.Unlock()
	for _, c := range r.conns {
		c.Close()
	}
	r.conns = nil
}
