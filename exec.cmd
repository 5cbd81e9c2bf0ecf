@rem `npm start` begins with exec, a command of POSIX shells, so that signals reach the service. Windows finds this file.
@%*
