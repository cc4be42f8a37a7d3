package rabbit

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"math/big"
	"net"
	"net/http"
	"os"
	"path/filepath"
	"testing"
	"time"
)

// tlsFiles are files for a server that wants certificates of its clients, and
// such a client's.
type tlsFiles struct {
	TLSFiles
	ca     *x509.CertPool
	client func(withCertificate bool) *http.Client
}

func makeTLSFiles(t *testing.T) tlsFiles {
	t.Helper()
	dir := t.TempDir()
	caCert, caKey := makeCertificate(t, nil, nil)
	serverCert, serverKey := makeCertificate(t, caCert, caKey)
	clientCert, clientKey := makeCertificate(t, caCert, caKey)
	f := tlsFiles{ca: x509.NewCertPool()}
	f.TLSFiles = TLSFiles{
		CA:               writePEM(t, dir, "ca", "CERTIFICATE", caCert.Raw),
		Cert:             writePEM(t, dir, "cert", "CERTIFICATE", serverCert.Raw),
		Key:              writePEM(t, dir, "key", "PRIVATE KEY", marshalKey(t, serverKey)),
		VerifyPeer:       true,
		FailIfNoPeerCert: true,
	}
	f.ca.AddCert(caCert)
	f.client = func(withCertificate bool) *http.Client {
		config := &tls.Config{RootCAs: f.ca}
		if withCertificate {
			config.Certificates = []tls.Certificate{{Certificate: [][]byte{clientCert.Raw}, PrivateKey: clientKey}}
		}
		transport := &http.Transport{TLSClientConfig: config}
		t.Cleanup(transport.CloseIdleConnections)
		return &http.Client{Transport: transport, Timeout: 10 * time.Second}
	}
	return f
}

// makeCertificate makes a certificate for this machine that is signed by ca,
// or a CA if that is nil.
func makeCertificate(t *testing.T, ca *x509.Certificate, caKey *ecdsa.PrivateKey) (*x509.Certificate, *ecdsa.PrivateKey) {
	t.Helper()
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		t.Fatal(err)
	}
	template := &x509.Certificate{
		SerialNumber:          big.NewInt(time.Now().UnixNano()),
		Subject:               pkix.Name{CommonName: "test"},
		NotBefore:             time.Now().Add(-time.Hour),
		NotAfter:              time.Now().Add(time.Hour),
		KeyUsage:              x509.KeyUsageDigitalSignature,
		ExtKeyUsage:           []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
		BasicConstraintsValid: true,
		IPAddresses:           []net.IP{net.IPv6loopback, net.IPv4(127, 0, 0, 1)},
	}
	if ca == nil {
		template.IsCA, template.KeyUsage = true, x509.KeyUsageCertSign
		template.Subject.CommonName = "test CA"
		ca, caKey = template, key
	}
	raw, err := x509.CreateCertificate(rand.Reader, template, ca, &key.PublicKey, caKey)
	if err != nil {
		t.Fatal(err)
	}
	cert, err := x509.ParseCertificate(raw)
	if err != nil {
		t.Fatal(err)
	}
	return cert, key
}

func marshalKey(t *testing.T, key *ecdsa.PrivateKey) []byte {
	t.Helper()
	raw, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		t.Fatal(err)
	}
	return raw
}

// writePEM writes a file and returns its path.
func writePEM(t *testing.T, dir, name, kind string, raw []byte) string {
	t.Helper()
	path := filepath.Join(dir, name+".pem")
	if err := os.WriteFile(path, pem.EncodeToMemory(&pem.Block{Type: kind, Bytes: raw}), 0o600); err != nil {
		t.Fatal(err)
	}
	return path
}
