"""What people see in a browser: hosted pages of payments, the form for buyers, the API's page."""
