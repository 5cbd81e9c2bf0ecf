// Runs before the first paint, so that a chosen theme does not flash; the policy of the page forbids it inline.
const theme = localStorage.getItem('wardline.theme')
if (theme === 'dark' || theme === 'light') document.documentElement.style.colorScheme = theme
