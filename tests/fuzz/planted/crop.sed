# harness/files/media/crop.c: a number above INT_MAX becomes negative.
s/x > INT_MAX ? INT_MAX : (int)x/(int)x/
