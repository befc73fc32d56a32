"""The jail: where a student's code runs. Only this package, `course` and earlier chapters can be seen inside."""
