/** Name of the command of the second process of a supervisor. It is not for people. */
export const watchCommand = '_watch'
