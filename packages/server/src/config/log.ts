import { oneOf, setting } from './values.ts'

export const logSettings = {
  logLevel: setting({
    env: 'WARDLINE_LOG_LEVEL',
    unset: 'info',
    meaning: 'Minimum log level',
    parse: oneOf(['debug', 'info', 'warn', 'error', 'silent']),
  }),
  logFormat: setting({
    env: 'WARDLINE_LOG_FORMAT',
    unset: 'auto',
    meaning:
      'Log format: `json`, one object a line; `pretty`, for people; `auto`, pretty on a terminal and JSON elsewhere',
    parse: oneOf(['auto', 'pretty', 'json']),
  }),
}
