package debian

// Programs that tests use.
var (
	// Promtool checks and evaluates rules of Prometheus (19 MB, some seconds).
	Promtool = Program{Names: []string{"promtool"}, Package: "prometheus", Path: "usr/bin/promtool"}
	// Prometheus is the server, of the same package.
	Prometheus = Program{Names: []string{"prometheus"}, Package: "prometheus", Path: "usr/bin/prometheus"}
	// Browser is a browser without a window (100 MB, about ten seconds).
	Browser = Program{
		Names:   []string{"chromium-headless-shell", "chromium", "google-chrome"},
		Package: "chromium-headless-shell", Path: "usr/lib/chromium/chromium-headless-shell",
		// Some of Debian 12's libraries are in /lib, which is a link to /usr/lib once
		// they are installed.
		Libraries: []string{"usr/lib/*-linux-gnu", "usr/lib/*-linux-gnu/pulseaudio", "lib/*-linux-gnu"},
	}
)
