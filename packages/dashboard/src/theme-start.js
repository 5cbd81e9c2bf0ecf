// Runs before the first paint, so that the default theme does not flash. The CSP forbids it inline.
const theme = localStorage.getItem('wardline.theme')
if (theme === 'dark' || theme === 'light') document.documentElement.style.colorScheme = theme
