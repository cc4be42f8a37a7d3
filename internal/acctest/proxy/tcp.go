package proxy

import (
	"io"
	"net"
	"sync"
	"testing"
	"time"
)

// TCP forwards connections until it is told to cut them.
type TCP struct {
	// Address is host:port.
	Address string

	mu    sync.Mutex
	conns []net.Conn
	// left is what the clients may still send while end is not nil.
	left int
	end  func()
	// rate is how many bytes per second each client may send, 0 for any number.
	rate int
}

// NewTCP starts a proxy in front of the server at address, host:port. It ends
// with the test.
func NewTCP(t *testing.T, address string) *TCP {
	t.Helper()
	listener, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	p := &TCP{Address: listener.Addr().String()}
	t.Cleanup(func() {
		_ = listener.Close()
		p.Cut()
	})
	go func() {
		for {
			client, err := listener.Accept()
			if err != nil {
				return
			}
			server, err := net.Dial("tcp", address)
			if err != nil {
				_ = client.Close()
				continue
			}
			p.forward(client, server)
		}
	}()
	return p
}

func (p *TCP) forward(client, server net.Conn) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.conns = append(p.conns, client, server)
	copyTo := func(to io.Writer, from io.Reader) {
		_, _ = io.Copy(to, from)
		_ = client.Close()
		_ = server.Close()
	}
	go copyTo(client, server)
	go copyTo(metered{server, p}, client)
}

// CutAfter cuts every connection when the clients have sent so many bytes more,
// in the middle of whatever that is. before is called first; it may be nil.
func (p *TCP) CutAfter(bytes int, before func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.left = bytes
	p.end = func() {
		if before != nil {
			before()
		}
		p.Cut()
	}
}

// Slow lets each client send so many bytes per second.
func (p *TCP) Slow(bytesPerSecond int) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.rate = bytesPerSecond
}

// pause takes as long as n bytes do.
func (p *TCP) pause(n int) {
	p.mu.Lock()
	rate := p.rate
	p.mu.Unlock()
	if rate > 0 {
		time.Sleep(time.Duration(n) * time.Second / time.Duration(rate))
	}
}

// spend says how many of n bytes may pass, and what ends the connections if
// these are the last ones.
func (p *TCP) spend(n int) (passing int, end func()) {
	p.mu.Lock()
	defer p.mu.Unlock()
	if p.end == nil || n < p.left {
		p.left -= n
		return n, nil
	}
	end, p.end = p.end, nil
	return p.left, end
}

// metered is the way to the server.
type metered struct {
	io.Writer

	proxy *TCP
}

func (m metered) Write(data []byte) (int, error) {
	m.proxy.pause(len(data))
	passing, end := m.proxy.spend(len(data))
	n, err := m.Writer.Write(data[:passing])
	if end != nil {
		end()
		return n, net.ErrClosed
	}
	return n, err
}

// Cut ends every connection under way. New ones are forwarded.
func (p *TCP) Cut() {
	p.mu.Lock()
	defer p.mu.Unlock()
	for _, c := range p.conns {
		_ = c.Close()
	}
	p.conns = nil
}
