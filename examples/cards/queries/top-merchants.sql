SELECT merchant, spent, payments FROM SpendingByMerchant WHERE category = 'groceries' ORDER BY spent DESC LIMIT 5
