package main

import (
	"os"
	"path/filepath"
	"testing"
)

func TestCompare(t *testing.T) {
	t.Parallel()
	for name, test := range map[string]struct {
		have, want files
		err        string
	}{
		"same":      {have: files{"a.md": "1\n", "r/b.md": "2"}, want: files{"a.md": "1\n", "r/b.md": "2"}},
		"no folder": {want: files{"r/b.md": "2"}, err: "r/b.md is missing"},
		"left over": {have: files{"a.md": "1"}, err: "a.md should not exist"},
		"changed": {
			have: files{"a.md": "1\n2\n", "b.md": "1\n2", "c.md": "1"},
			want: files{"a.md": "1\n3\n", "b.md": "1", "c.md": "1\n2"},
			err: `a.md differs: line 2 is "2", should be "3"` + "\n" +
				`b.md differs: line 2 is too much: "2"` + "\n" +
				`c.md differs: line 2 is missing: "2"`,
		},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			got := ""
			if err := compare(folder(t, test.have), folder(t, test.want)); err != nil {
				got = err.Error()
			}
			if got != test.err {
				t.Errorf("compare says\n%s\nwant\n%s", got, test.err)
			}
		})
	}
}

type files map[string]string

// folder writes files and returns their folder; for none it does not exist.
func folder(t *testing.T, content files) string {
	t.Helper()
	root := filepath.Join(t.TempDir(), "docs")
	for name, text := range content {
		path := filepath.Join(root, name)
		if err := os.MkdirAll(filepath.Dir(path), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(path, []byte(text), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	return root
}
