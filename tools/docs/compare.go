package main

import (
	"bytes"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"slices"
)

// compare returns nil if two folders hold the same files with the same
// content, else an error with a line for each file that differs.
func compare(have, want string) error {
	haveFiles, err := read(have)
	if err != nil {
		return err
	}
	wantFiles, err := read(want)
	if err != nil {
		return err
	}
	var differences []error
	for _, name := range names(haveFiles, wantFiles) {
		before, had := haveFiles[name]
		after, wanted := wantFiles[name]
		switch {
		case !had:
			differences = append(differences, fmt.Errorf("%s is missing", name))
		case !wanted:
			differences = append(differences, fmt.Errorf("%s should not exist", name))
		case !bytes.Equal(before, after):
			differences = append(differences, fmt.Errorf("%s differs: %s", name, firstDifference(before, after)))
		}
	}
	return errors.Join(differences...)
}

// read returns the content of all files under a folder by their path in it.
// A folder that does not exist holds none.
func read(folder string) (map[string][]byte, error) {
	files := map[string][]byte{}
	if _, err := os.Stat(folder); errors.Is(err, fs.ErrNotExist) {
		return files, nil
	}
	tree := os.DirFS(folder)
	err := fs.WalkDir(tree, ".", func(name string, entry fs.DirEntry, err error) error {
		if err != nil || entry.IsDir() {
			return err
		}
		files[name], err = fs.ReadFile(tree, name)
		return err
	})
	return files, err
}

// names returns the keys of both maps, sorted, each once.
func names(a, b map[string][]byte) []string {
	var all []string
	for name := range a {
		all = append(all, name)
	}
	for name := range b {
		all = append(all, name)
	}
	slices.Sort(all)
	return slices.Compact(all)
}

// firstDifference describes the first line in which two texts differ.
func firstDifference(have, want []byte) string {
	haveLines, wantLines := bytes.Split(have, []byte("\n")), bytes.Split(want, []byte("\n"))
	for i := range max(len(haveLines), len(wantLines)) {
		switch {
		case i >= len(haveLines):
			return fmt.Sprintf("line %d is missing: %q", i+1, wantLines[i])
		case i >= len(wantLines):
			return fmt.Sprintf("line %d is too much: %q", i+1, haveLines[i])
		case !bytes.Equal(haveLines[i], wantLines[i]):
			return fmt.Sprintf("line %d is %q, should be %q", i+1, haveLines[i], wantLines[i])
		}
	}
	return "nowhere"
}
